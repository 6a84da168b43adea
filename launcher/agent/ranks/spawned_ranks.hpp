// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/command_path.hpp"
#include "launcher/agent/processes/environment_block.hpp"
#include "launcher/agent/processes/spawner.hpp"
#include "launcher/agent/ranks/rank_source.hpp"
#include "launcher/model/launch_plan.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The ranks that the agent spawns; mpirun itself is one too, with kLauncherRank.
class SpawnedRanks final : public RankSource {
public:
    /// The ranks start in the cgroup with the open folder `cgroup`, -1: in the agent's own.
    SpawnedRanks(JobPlan job,
                 HostPlan plan,
                 const Inheritance& given,
                 int cgroup,
                 RankContext context);

    void advance(TimePoint now) override;
    [[nodiscard]] bool has_to_start() const override { return next_ < ranks_.size(); }
    void cancel_starts() override { next_ = ranks_.size(); }
    [[nodiscard]] bool is_over(TimePoint now) override;
    void signal(int number) override;
    void mark_killed_by_launcher() override;
    [[nodiscard]] bool was_asked(pid_t group) const override;
    [[nodiscard]] std::optional<pid_t> pid_of(int rank) const override;
    void child_ended(const EndedChild& child) override;
    [[nodiscard]] bool was_any_killed() const override { return was_any_killed_; }

private:
    struct Rank {
        std::size_t spec = 0;  // in plan_.ranks
        std::optional<pid_t> pid;
        bool is_running = false;
        bool was_asked = false;  // to end, with its group
        bool is_killed_by_launcher = false;
    };

    /// A rank's standard streams, until it has copies of them.
    struct Streams {
        int in = -1;
        int out = -1;
        int err = -1;
        std::array<UniqueFd, 3> pipes{};  // those of them that are no more than that
    };
    using Opened = std::variant<Streams, SpawnFailure>;

    void start(Rank& rank);
    [[nodiscard]] bool has_terminal(int rank) const {
        return plan_.has_terminal && plan_.stdin_rank == rank;
    }
    [[nodiscard]] Opened open_streams(int rank);
    [[nodiscard]] Opened open_terminal(int rank);
    void close_terminal(int rank);
    [[nodiscard]] std::string explain_kill(pid_t pid, std::uint64_t max_rss_bytes);
    /// With the record of the launchers' variables that it finds among these and the shared ones.
    [[nodiscard]] Environment with_launcher_variables(Environment own) const;
    [[nodiscard]] const CommandFile& find_program(const ProcessSpec& spec,
                                                  const EnvironmentBlock& environment);

    JobPlan job_;
    HostPlan plan_;
    RankContext context_;
    Spawner spawner_;
    EnvironmentBlock shared_environment_;
    std::optional<pid_t> pmi_server_;  // ranks inherit its descriptor
    UniqueFd null_input_;
    std::vector<Rank> ranks_;
    std::size_t next_ = 0;
    std::size_t running_ = 0;
    bool has_told_memory_ = false;
    bool was_any_killed_ = false;

    // The last look-up: all ranks of a job mostly run the same program.
    std::tuple<std::string, std::optional<std::string>, std::string> looked_up_;
    CommandFile found_;
};

}  // namespace hvd::launch::agent
