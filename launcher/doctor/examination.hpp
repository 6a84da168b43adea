// SPDX-License-Identifier: Apache-2.0
//
// What the doctor asks the agents. Unlike a job's supervisor it goes on where a host fails: all
// that is wrong is to be found at once.
#pragma once

#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/link_pairs.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/plan/process_spec.hpp"
#include "launcher/remote/starter.hpp"
#include "launcher/supervise/agents.hpp"
#include "launcher/supervise/signals.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// What the user allows for the data between hosts.
struct LinkWishes {
    std::string interfaces{};  // HOROVOD_NETWORK_INTERFACES
    std::string ports{};       // HOROVOD_PORT_RANGE
};

/// Thread: the caller of its methods is the io thread.
class Examination final {
public:
    /// The time to reach a host counts from `began_at`.
    Examination(IoThread& io,
                const BlockedSignals& signals,
                std::string build_id,
                std::chrono::steady_clock::time_point began_at);

    /// Starts the agents and takes what they tell of their hosts, until each has spoken or failed.
    void link(Starter& starter,
              const std::vector<Host>& hosts,
              std::chrono::milliseconds start_timeout);

    /// Finds names that are one machine: for each host the first that is its machine, mostly
    /// itself.
    [[nodiscard]] std::vector<std::size_t> find_machines();

    /// Asks each agent whether the ranks of its host could run; where `plan` has none, about the
    /// rest.
    void check(const LaunchPlan& plan, const std::vector<std::size_t>& hosts);

    /// Measures the links between these hosts.
    void measure(const std::vector<std::size_t>& hosts, const LinkWishes& wishes);

    /// Ends the agents and waits for that.
    void dismiss();

    [[nodiscard]] Diagnosis& diagnosis() noexcept { return diagnosis_; }

    /// Those whose agents can still be asked.
    [[nodiscard]] std::vector<std::size_t> reached() const;

    /// The signal that was to end this; what was begun then is left out.
    [[nodiscard]] int stop_signal() const noexcept { return stop_signal_; }

private:
    /// What is known of a host besides its diagnosis.
    struct Patient {
        std::chrono::steady_clock::time_point linked_at{};
        std::int64_t asked_wall_ns = 0;
        bool is_awaited = false;  // an answer of it
        bool is_lost = false;
        std::vector<std::string> found{};  // marks
    };

    void on_signal(int number);
    void on_message(std::size_t host, wire::FromAgent message);
    void on_agent_end(std::size_t host);
    void on(std::size_t host, const wire::Hello& hello);
    void on(std::size_t host, const wire::Facts& facts);
    void on(std::size_t host, wire::Found& found);
    void on(std::size_t host, wire::Checked& checked);
    void on(std::size_t host, wire::Note& note);
    void on(std::size_t host, wire::LinkOpen& link);
    void on(std::size_t host, wire::LinkMeasured& link);
    template <class Other>
    void on(std::size_t /*host*/, const Other& /*message*/) {}  // of a job

    void wait(std::chrono::milliseconds limit);
    void end_wait_if_done();
    void answered(std::size_t host);
    void give_up(std::size_t host, const std::string& why);
    void keep_alive();
    void begin_pairs();
    void end_pair(std::size_t pair, const std::string& problem);
    void expect_progress();
    void fail_stalled_pairs();
    [[nodiscard]] bool is_under_way(std::uint32_t pair) const;

    IoThread& io_;
    std::string build_id_;
    std::chrono::steady_clock::time_point began_at_;
    Agents agents_;
    SignalSource signals_;
    int stop_signal_ = 0;
    bool is_dismissed_ = false;
    Diagnosis diagnosis_;
    std::vector<Patient> patients_;

    // While links are measured.
    LinkWishes wishes_;
    std::optional<PairSchedule> schedule_;
    std::vector<std::size_t> link_hosts_;          // what the pairs number
    std::vector<bool> pair_is_open_;               // by pair: it is under way
    std::vector<std::vector<std::byte>> secrets_;  // by pair

    Timer limit_;
    Timer pulse_;
};

}  // namespace hvd::launch
