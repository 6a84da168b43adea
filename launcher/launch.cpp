// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch.hpp"

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/mpi/mpi_program.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/net/signals.hpp"
#include "launcher/plan/launch_context.hpp"
#include "launcher/remote/gather/gather_hosts.hpp"
#include "launcher/remote/host_starters.hpp"
#include "launcher/report/job_report.hpp"
#include "launcher/report/print_plan.hpp"
#include "launcher/report/run_plan.hpp"
#include "launcher/report/trace_file.hpp"
#include "launcher/supervise/caller_stream.hpp"
#include "launcher/supervise/job_runner.hpp"
#include "launcher/supervise/job_signals.hpp"
#include "launcher/supervise/job_start.hpp"
#include "launcher/supervise/lent_terminal.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

/// From the hosts to linked agents, to a plan, to the end of its ranks. Every step gives what the
/// next one takes, or the error that ends the job.
class Launch final {
public:
    explicit Launch(const LaunchRequest& request) : request_(request), report_(request) {}

    /// Gives the exit code.
    int run() {
        const auto exit_code = take_steps();
        return exit_code ? *exit_code : report_.write(give_up(exit_code.error()));
    }

private:
    StartFailure give_up(const Error& error) {
        return start_ ? start_->give_up(error) : failed_start(error, stop_signal_);
    }

    Result<int> take_steps() {
        HVD_TRY(auto hosts, reach_hosts());
        HVD_TRY(const auto plan, plan_ranks(std::move(hosts)));
        return use(plan);
    }

    /// Starts the agents and collects the facts of their hosts.
    Result<std::vector<PlanHost>> reach_hosts() {
        HVD_TRY_STATUS(check_terminal(request_));
        HVD_TRY_STATUS(report_.reserve_summary(request_));
        std::ranges::for_each(request_.report.notes, say_);
        HVD_TRY(auto gathered,
                gather_hosts(io_, signals_, request_, deadline_, stop_signal_, say_));
        HVD_TRY(trace_, TraceFile::reserve(request_, gathered.placed, io_, say_));
        auto context = starter_context(signals_, request_.limits, say_);
        trace_->join(context, job_);
        HVD_TRY(starters_, make_host_starters(io_, request_.ssh, context, gathered));
        mpi_.emplace(request_, context);  // asks mpirun while agents start
        job_signals_.emplace(io_, signals_, fleet_);
        start_.emplace(io_, fleet_, *job_signals_, deadline_, job_.trace);
        HVD_TRY(auto facts, start_->link(*starters_, hosts_of(gathered.placed)));
        return starters_->with_facts(std::move(facts));
    }

    Result<LaunchPlan> plan_ranks(std::vector<PlanHost> hosts) {
        HVD_TRY_STATUS(start_->settle(hosts, request_.hosts.ports));
        HVD_TRY_STATUS(mpi_->learn(io_, *start_));
        trace_->enter("plan");
        HVD_TRY(const auto context, make_launch_context());
        HVD_TRY(auto planned, make_plan(request_, context, hosts));
        std::ranges::for_each(planned.warnings, say_);
        return mpi_->wrap(std::move(planned.plan), hosts);
    }

    Result<int> use(const LaunchPlan& plan) {
        if (needs_check(plan) || request_.dry_run.is_wanted) {
            HVD_TRY_STATUS(start_->check(plan));
        }
        if (request_.dry_run.is_wanted) {
            start_->dismiss(0);
            return print_plan(request_.dry_run, plan, starters_->ways());
        }
        runner_.emplace(io_, fleet_, *job_signals_, request_, std::move(job_));
        return run_plan(fleet_, *runner_, start_->finish(), plan, report_);
    }

    const LaunchRequest& request_;
    JobReport report_;
    const Say say_ = [this](const std::string& sentence) { report_.say(sentence); };
    BlockedSignals signals_;
    IoThread io_;
    const Deadline deadline_ = io_.in(request_.limits.start_timeout);
    int stop_signal_ = 0;
    std::unique_ptr<TraceFile> trace_;
    std::unique_ptr<HostStarters> starters_;
    std::optional<MpiProgram> mpi_;
    AgentFleet fleet_{io_, std::string(wire::build_id()), request_.limits.lease};
    JobContext job_{.log = report_.log(), .caller = adopt_caller(request_)};
    std::optional<JobSignals> job_signals_;
    std::optional<JobStart> start_;
    std::optional<JobRunner> runner_;
};

}  // namespace

int run(const LaunchRequest& request) {
    if (request.dry_run.facts_file) {
        return print_offline_plan(request);
    }
    return Launch(request).run();
}

}  // namespace hvd::launch
