// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/input_feeder.hpp"
#include "launcher/agent/oom_watch.hpp"
#include "launcher/agent/output_pump.hpp"
#include "launcher/agent/rank_socket.hpp"
#include "launcher/agent/spawner.hpp"
#include "launcher/plan/process_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The environment of all ranks of the host: what the plans give them in common, and our own where
/// the plan says so.
[[nodiscard]] Environment whole_environment(Environment common, const HostPlan& host);

/// The ranks of this host, from their start to their end.
class Ranks final {
public:
    /// Where ranks live and get their streams from, and where it is told. All outlive this object.
    struct Surroundings {
        int cgroup;  // the folder of theirs, or -1
        ControlStream& control;
        OutputPump& output;
        InputFeeder& input;
        OomWatch& oom;
        RankSocket& socket;
    };

    /// `shared` is the environment that all ranks of the host have in common.
    Ranks(const Environment& shared,
          JobPlan job,
          HostPlan plan,
          const Inheritance& given,
          Surroundings surroundings);

    /// Starts some of the ranks that wait for it, and tells it. A few at a time, so that the agent
    /// still hears signals and stops while it starts hundreds.
    void start_some();
    [[nodiscard]] bool has_to_start() const noexcept { return next_ < ranks_.size(); }

    /// What has not been started stays so.
    void cancel_starts() noexcept { next_ = ranks_.size(); }

    /// Which children this process has after a look at those that ended.
    enum class Children { none, alive, ended };

    /// Takes in the ends of children, and tells those of ranks; those of others go to `on_other`.
    /// For 20 ms at most, since somebody may fork as fast: the kernel has the oldest child first.
    Children reap(const std::function<void(pid_t pid, int wait_status)>& on_other);

    [[nodiscard]] bool is_any_running() const noexcept { return running_ > 0; }
    /// Whether a signal that was not ours has ended one.
    [[nodiscard]] bool was_any_killed() const noexcept { return was_any_killed_; }

    /// To every rank that runs: signals that a terminal sends to the process group of the rank, as
    /// the terminal does; others, which programs use between each other, to the rank alone.
    void signal(int number);

    /// Whether the process group of this number is that of a rank, and was asked to end with it.
    [[nodiscard]] bool was_asked(pid_t group) const noexcept;

    /// What ends from now on was ended by us.
    void mark_induced() noexcept;

    /// The process of a rank that runs.
    [[nodiscard]] std::optional<pid_t> pid_of(int rank) const noexcept;

private:
    struct Rank {
        std::size_t spec = 0;  // in plan_.ranks
        std::optional<pid_t> pid;
        bool is_running = false;
        bool was_asked = false;  // to end, with its group
        bool is_induced = false;
    };

    void start(Rank& rank);
    [[nodiscard]] std::string explain_kill(pid_t pid, std::uint64_t max_rss_bytes);
    [[nodiscard]] std::variant<std::string, int> find_program(const ProcessSpec& spec,
                                                              const EnvironmentBlock& environment);

    JobPlan job_;
    HostPlan plan_;
    Surroundings to_;
    Spawner spawner_;
    EnvironmentBlock shared_environment_;
    UniqueFd null_input_;
    std::vector<Rank> ranks_;
    std::size_t next_ = 0;
    std::size_t running_ = 0;
    bool has_told_memory_ = false;
    bool was_any_killed_ = false;

    // The last look-up: all ranks of a job mostly run the same program.
    std::tuple<std::string, std::optional<std::string>, std::string> looked_up_;
    std::variant<std::string, int> found_;
};

}  // namespace hvd::launch::agent
