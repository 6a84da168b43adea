// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/plan/planner.hpp"
#include "launcher/supervise/job_context.hpp"
#include "launcher/supervise/job_signals.hpp"
#include "launcher/supervise/launch_trace.hpp"
#include "launcher/supervise/start_failure.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// Whether a plan is to be checked before its ranks start. Few ranks on this machine need no check:
/// the first one that fails says why.
[[nodiscard]] bool needs_check(const LaunchPlan& plan);

/// The part of a job before its ranks: what the fleet is asked between the start of the agents and
/// that of the ranks, all within --start-timeout, and why a job is given up where an agent fails.
///
/// Errors of its methods: timed_out; aborted, by a signal; others for what could not be started.
/// Once one of them has failed only `give_up` is called. Thread: io.
class JobStart final {
public:
    /// `deadline` is the end of --start-timeout. `trace` may be null. All outlive this object.
    JobStart(IoThread& io,
             AgentFleet& fleet,
             JobSignals& signals,
             Deadline deadline,
             LaunchTrace* trace);

    /// Starts the agents and collects the facts of their hosts, in the order of `hosts`.
    [[nodiscard]] Result<std::vector<HostFacts>> link(Starter& starter,
                                                      const std::vector<Host>& hosts);

    /// Asks for what a plan needs of all hosts together, and puts it into `hosts`: which of them
    /// are one machine, whatever they are called, and a port of the span, if one is given, that is
    /// free on the first host. Errors also: invalid_argument, as of merge_machines, and when no
    /// port is.
    [[nodiscard]] Status settle(std::vector<PlanHost>& hosts, const std::optional<PortSpan>& ports);

    /// Asks whether the ranks of the plan could run on every host. Errors also: unavailable, when
    /// they could not; `give_up` has every reason then.
    [[nodiscard]] Status check(const LaunchPlan& plan);

    /// Runs the loop until somebody stops it and `is_done`, for what else a start waits. `late` is
    /// the error's message when the time is over.
    [[nodiscard]] Status wait_until(const std::function<bool()>& is_done, const std::string& late);

    /// The start is over, and the ranks may begin.
    [[nodiscard]] RunStart finish() {
        return {.deadline = deadline_, .notes = std::exchange(notes_, {})};
    }

    /// After an error, also one of the run: ends the agents, and gives the failure with all that is
    /// known of the hosts that caused it.
    [[nodiscard]] StartFailure give_up(const Error& error);

    /// Ends the agents of a job that ends with this exit code before any rank has started.
    void dismiss(int exit_code);

private:
    [[nodiscard]] Result<std::vector<std::size_t>> find_machines();
    [[nodiscard]] Result<int> pick_port(const PortSpan& ports);
    [[nodiscard]] AgentFleet::Timeout timeout() const;
    void enter(std::string step);
    void on_stop_request(int signal);
    void on_message(std::size_t host, const wire::FromAgent& message);
    void on_end(const AgentEnd& end);
    void note(std::size_t host, const std::string& text);
    [[nodiscard]] Status require(const std::vector<bool>& has_answered);
    void miss(const std::vector<std::size_t>& hosts);
    [[nodiscard]] std::vector<HostResult> failures() const;

    IoThread& io_;
    AgentFleet& fleet_;
    JobSignals& signals_;
    LaunchTrace* trace_;
    Deadline deadline_;
    std::vector<std::optional<HostFacts>> facts_;  // by host
    std::optional<Error> error_;                   // of the first host that failed
    std::map<std::size_t, std::string> failures_;  // by host: why
    std::vector<HostProblem> problems_;            // found by `check`
    std::vector<std::string> not_awaited_;         // hosts for which a failed start did not wait
    bool is_late_ = false;                         // --start-timeout
    std::string notes_;
    bool is_waiting_elsewhere_ = false;  // in `wait_until`
    Timer timer_;
};

}  // namespace hvd::launch
