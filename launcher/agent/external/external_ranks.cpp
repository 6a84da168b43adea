// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/external_ranks.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace hvd::launch::agent {

ExternalRanks::ExternalRanks(JobPlan job,
                             HostPlan plan,
                             const Inheritance& given,
                             int cgroup,
                             JobMarks job_processes,
                             RankContext context)
    : job_processes_(std::move(job_processes)),
      context_(context),
      claimed_(job, plan, context),
      is_launcher_alone_(plan.ranks.empty() && !plan.launchers.empty()) {
    if (auto listening = claimed_.listen(plan.shim_socket); !listening) {
        context_.control.send(
            wire::Note{.text = "no rank can come to the agent: " + listening.error().message});
    }
    if (plan.launchers.empty()) {
        return;
    }
    launcher_name_ = plan.launchers.front().argv.front();
    plan.ranks = std::move(plan.launchers);
    plan.inherits_env = plan.inherits_env || job.is_env_clean;  // it needs a PATH, a HOME
    launcher_.emplace(std::move(job), std::move(plan), given, cgroup, context);
}

void ExternalRanks::advance(TimePoint now) {
    if (launcher_) {
        launcher_->advance(now);
        end_hanging_launcher(now);
    }
}

bool ExternalRanks::has_to_start() const {
    return launcher_ && launcher_->has_to_start();
}

std::optional<RankSource::TimePoint> ExternalRanks::deadline() const {
    const auto status = claimed_.deadline();
    const auto end = launcher_end_.deadline();
    return status && end ? std::min(status, end) : status ? status : end;
}

void ExternalRanks::cancel_starts() {
    if (launcher_) {
        launcher_->cancel_starts();
    }
}

/// Without the launcher, once all ranks have come and gone. The status of one whose parent, the
/// launcher's daemon on this host, is still to take it is waited for.
bool ExternalRanks::is_over(TimePoint now) {
    if (launcher_) {
        return launcher_->is_over(now);
    }
    return !claimed_.is_any_running() && (claimed_.have_all_come() || !claimed_.takes_more()) &&
           !claimed_.awaits_status(now);
}

/// mpirun would pass a signal on in another way, and give the ranks no time to react. It ends with
/// the last rank, so it gets a signal itself only while there is no rank.
void ExternalRanks::signal(int number) {
    if (claimed_.has_any_come()) {
        claimed_.signal(number);
    } else if (launcher_ && number != SIGCONT) {
        launcher_->signal(number);
    }
}

void ExternalRanks::mark_killed_by_launcher() {
    claimed_.mark_killed_by_launcher();
    if (launcher_) {
        launcher_->mark_killed_by_launcher();
    }
}

bool ExternalRanks::was_asked(pid_t group) const {
    return claimed_.was_asked(group) || (launcher_ && launcher_->was_asked(group));
}

void ExternalRanks::child_ended(const EndedChild& child) {
    if (launcher_) {
        launcher_->child_ended(child);
    }
    claimed_.child_ended(child);
}

bool ExternalRanks::was_any_killed() const {
    return launcher_ && launcher_->was_any_killed();
}

bool ExternalRanks::has_non_descendants() const {
    return !launcher_ || claimed_.parents().has_non_descendant();
}

void ExternalRanks::exclude_launcher(std::vector<Process>& processes) const {
    if (!launcher_) {
        claimed_.parents().remove_from(processes);
    }
}

/// Open MPI 4.1 with PMIx 4.2 now and then waits for itself when its ranks left without
/// MPI_Finalize. The ranks are zombies then, and their ends are reported once it is gone.
void ExternalRanks::end_hanging_launcher(TimePoint now) {
    const auto launcher = launcher_->pid_of(kLauncherRank);
    const bool is_idle = launcher && claimed_.is_whole_job_over() && !context_.output.is_held_up();
    if (!launcher_end_.is_overdue(is_idle, now)) {
        return;
    }
    const auto left = find_job(job_processes_);
    if (left.size() != 1 || left.front().pid != *launcher) {
        return;  // it may wait for another process of the job
    }
    context_.control.send(wire::Note{
        .text = launcher_name_ + " (pid " + std::to_string(*launcher) + ") has not ended for " +
                std::to_string(IdleWatch::kGrace.count()) + " s after the last rank: ending it"});
    launcher_->mark_killed_by_launcher();
    send_signal(left.front(), SIGKILL);
}

}  // namespace hvd::launch::agent
