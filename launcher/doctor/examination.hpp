// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/link_measurement.hpp"
#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/net/signals.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace hvd::launch {

/// Asks a fleet of agents what keeps ranks from running on their hosts, and writes the answers into
/// a Diagnosis. Unlike the start of a job it goes on where a host fails: all that is wrong is to be
/// found at once. Thread: io.
class Examination final {
public:
    /// The time to reach a host counts from `began_at`.
    Examination(IoThread& io,
                const BlockedSignals& signals,
                std::string build_id,
                std::chrono::steady_clock::time_point began_at);

    /// Starts the agents and collects their hosts' facts, until each agent has answered or failed.
    void link(Starter& starter,
              const std::vector<Host>& hosts,
              std::chrono::milliseconds start_timeout);

    /// Finds names that are one machine: for each host the first that is its machine, mostly
    /// itself.
    [[nodiscard]] std::vector<std::size_t> find_machines();

    /// Asks each agent whether the ranks of its host could run; where `plan` has none, about the
    /// rest. The hosts of the plan are `hosts`.
    void check(const LaunchPlan& plan, const std::vector<std::size_t>& hosts);

    /// Measures the links between these hosts.
    void measure(const std::vector<std::size_t>& hosts, const LinkOptions& options);

    /// Ends the agents and waits for that.
    void dismiss() { fleet_.dismiss(0); }

    [[nodiscard]] Diagnosis& diagnosis() noexcept { return diagnosis_; }

    /// Those whose agents can still be asked.
    [[nodiscard]] std::vector<std::size_t> reached() const;

    /// The signal that was to end this; what was begun then is left out.
    [[nodiscard]] int stop_signal() const noexcept { return stop_signal_; }

private:
    void on_signal(int number);
    void on_message(std::size_t host, wire::FromAgent message);
    void on_end(const AgentEnd& end);
    void on_answer(std::size_t host);
    void give_up(std::size_t host, const std::string& why);

    IoThread& io_;
    std::chrono::steady_clock::time_point began_at_;
    AgentFleet fleet_;
    SignalSource signals_;
    int stop_signal_ = 0;
    Diagnosis diagnosis_;
    LinkMeasurement* measurement_ = nullptr;  // while links are measured
};

}  // namespace hvd::launch
