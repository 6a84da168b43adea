// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/job_processes.hpp"

#include <csignal>

#include <unistd.h>

namespace hvd::launch::agent {

JobProcesses::JobProcesses(pid_t guard)
    : marks_{.guard = guard, .agent = ::getpid(), .job_id = {}} {}

void JobProcesses::reap(RankSource& ranks) {
    const auto left = reap_children([&](const EndedChild& child) { ranks.child_ended(child); });
    has_children_ = left != Children::none;
    has_ended_child_ = left == Children::ended;
}

/// Without a child there is no descendant: the agent is their subreaper. Only a KILL, or ranks that
/// another launcher started, are worth the look at every process.
bool JobProcesses::is_any_left(RankSource& ranks) {
    reap(ranks);
    const bool may_be_elsewhere = was_killed_ || ranks.has_non_descendants();
    return has_children_ || (may_be_elsewhere && !find(ranks).empty());
}

void JobProcesses::term_leftovers(const RankSource& ranks) const {
    for (const auto& process : find(ranks)) {
        if (!ranks.was_asked(::getpgid(process.pid))) {
            send_signal(process, SIGTERM);
        }
        send_signal(process, SIGCONT);
    }
}

void JobProcesses::kill(RankSource& ranks) {
    was_killed_ = true;
    ranks.mark_killed_by_launcher();
    if (cgroup_) {
        (void)cgroup_->kill();
    }
    for (const auto& process : find(ranks)) {
        send_signal(process, SIGKILL);
    }
}

std::vector<Process> JobProcesses::find(const RankSource& ranks) const {
    auto found = find_job(marks_);
    if (!is_end_wanted_) {
        ranks.exclude_launcher(found);
    }
    return found;
}

}  // namespace hvd::launch::agent
