// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/supervise/input_pump.hpp"
#include "launcher/supervise/job_context.hpp"
#include "launcher/supervise/lent_terminal.hpp"
#include "launcher/supervise/output_flow.hpp"
#include "launcher/supervise/stderr_tail.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace hvd::launch {

/// The standard streams of a job's ranks: their output on its way to console and files, the last
/// lines of each rank's standard error, and horovodrun's standard input or terminal on its way to
/// them. What horovodrun says itself goes the same way. Thread: io.
class RankStreams final {
public:
    /// Errors: invalid_argument, when a file cannot be written, or unavailable, when a terminal
    /// cannot be lent. `plan` and `fleet` outlive this object.
    [[nodiscard]] static Result<std::unique_ptr<RankStreams>> open(IoThread& io,
                                                                   AgentFleet& fleet,
                                                                   const LaunchPlan& plan,
                                                                   const LaunchRequest& request,
                                                                   const JobContext& context,
                                                                   OutputFlow::Events events);

    /// Standard input is read from now on, where a rank wants it. Throws Exception when the process
    /// is out of descriptors.
    void start_input(IoThread& io);

    void on(std::size_t host, wire::Output& event);
    void on(std::size_t host, const wire::InputTaken& event);
    void on_started(int rank);
    void on_exited(int rank);
    void on_host_lost(std::size_t host);
    void on_signal(int signal);  // none that asks for the end

    /// No rank is left.
    void end();

    /// All output was written, or is waited for no longer.
    void restore_terminal();

    [[nodiscard]] OutputFlow& output() const noexcept { return *output_; }

    /// By rank; the last is mpirun's.
    [[nodiscard]] const std::vector<StderrTail>& tails() const noexcept { return tails_; }

private:
    RankStreams(AgentFleet& fleet, const LaunchPlan& plan, std::size_t error_lines);

    /// mpirun's place comes after those of the ranks.
    [[nodiscard]] int place_of(int rank) const;
    [[nodiscard]] bool is_of_terminal(int rank) const {
        return terminal_ && terminal_->rank() == rank;
    }

    AgentFleet& fleet_;
    const LaunchPlan& plan_;
    std::vector<StderrTail> tails_;
    std::optional<InputPump> input_;
    std::unique_ptr<LentTerminal> terminal_;
    std::unique_ptr<OutputFlow> output_;  // last: its threads call into what is above
};

}  // namespace hvd::launch
