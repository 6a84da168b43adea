// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/supervise/caller_stream.hpp"
#include "launcher/supervise/host_ends.hpp"
#include "launcher/supervise/job_context.hpp"
#include "launcher/supervise/job_end.hpp"
#include "launcher/supervise/job_machine.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/job_signals.hpp"
#include "launcher/supervise/job_timers.hpp"
#include "launcher/supervise/plan_frames.hpp"
#include "launcher/supervise/rank_reports.hpp"
#include "launcher/supervise/rank_signals.hpp"
#include "launcher/supervise/rank_streams.hpp"
#include "launcher/supervise/time_limit.hpp"
#include "launcher/supervise/world_service.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// How a job ended, and what its output and last words did not reach: nobody reads the console, or
/// a file takes nothing, and the job was not to wait for that. A thread is still blocked in a write
/// then: the process must end by _exit.
struct Supervised {
    JobResult result;
    bool is_console_abandoned = false;
    bool is_folder_abandoned = false;
};

/// Runs a plan over a fleet whose agents are linked, to its end: translates what agents, signals
/// and clocks say into events of the JobMachine, performs the machine's actions, and puts the
/// result together once all output is written. It decides nothing itself.
///
/// Thread: io. It has more than 15 members because each concern of a running job is a class of its
/// own (streams, timers, hosts, worlds, reports), and this one is where all of them meet.
class JobRunner final {
public:
    /// The pointed-to objects outlive the runner, which takes the request's limits, output and
    /// report.
    JobRunner(IoThread& io,
              AgentFleet& fleet,
              JobSignals& signals,
              const LaunchRequest& request,
              JobContext context);

    /// Runs the job to its end. Errors: invalid_argument, before any rank has started. Called once.
    [[nodiscard]] Result<Supervised> run(const LaunchPlan& plan, const RunStart& start);

private:
    Status prepare(const LaunchPlan& plan, const std::string& notes);
    void start_ranks(std::vector<Frame> starts, Deadline deadline);
    void perform(JobAction action);

    void on_stop_request(int signal);
    void on_other_signal(int signal);
    void on_caller_gone();

    void on_end(const AgentEnd& end);
    void lose_host(std::size_t host, HostLoss loss);
    void finish_if_all_done();
    [[nodiscard]] bool knows(std::size_t host, int rank);

    void on_message(std::size_t host, wire::FromAgent message);
    void on(std::size_t host, wire::Started event);
    void on(std::size_t host, wire::StartFailed event);
    void on(std::size_t host, wire::Output& event);
    void on(std::size_t host, wire::RankReport event);
    void on(std::size_t host, const wire::RankActivity& event);
    void on(std::size_t host, wire::Exited event);
    void on(std::size_t host, wire::Put& event) { on_key(host, event); }
    void on(std::size_t host, wire::Get& event) { on_key(host, event); }
    void on_key(std::size_t host, auto& event);
    void on(std::size_t host, const wire::Note& event);
    void on(std::size_t host, const wire::StepSignal& event);
    void on(std::size_t host, const wire::Leaving& event);
    void on(std::size_t host, const wire::AllGone& event);
    void on(std::size_t host, wire::Checked& event);
    void on(std::size_t host, const wire::InputTaken& event) { streams_->on(host, event); }
    void on(std::size_t /*host*/, const auto& /*answer*/) {}  // to no question of a running job

    void end_trace();
    void begin_end();

    IoThread& io_;
    AgentFleet& fleet_;
    JobSignals& signals_;
    const LaunchRequest& request_;
    JobContext context_;
    const LaunchPlan* plan_ = nullptr;  // outlives `run`
    std::optional<TimeLimit> time_limit_;
    std::optional<JobMachine> machine_;
    std::optional<JobTimers> timers_;
    std::optional<HostEnds> hosts_;
    WorldService world_;
    std::optional<CallerStream> caller_;
    std::optional<RankReports> news_;
    std::optional<std::int64_t> asked_end_at_ns_;  // when the ranks were first asked to end
    std::optional<RankSignals> rank_signals_;
    std::optional<JobEnd> end_;
    std::unique_ptr<RankStreams> streams_;  // last: its threads call into what is above
};

}  // namespace hvd::launch
