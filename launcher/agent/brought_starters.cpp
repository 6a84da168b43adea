// SPDX-License-Identifier: Apache-2.0
//
// The part of BroughtRanks that has to do with who starts them.
#include "launcher/agent/brought_ranks.hpp"
#include "launcher/agent/pidfd.hpp"
#include "launcher/agent/process_table.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace hvd::launch::agent {

/// By our numbers; 0 where it is unknown. Ranks have few parents, and a look into /proc is slow, so
/// that the shim's own word counts where it counts processes as we do. The starters of each
/// parent's first rank are noted.
pid_t BroughtRanks::parent_of(const Guest& guest, const ShimClaim& claim) {
    if (claim.pid == guest.pid && parents_.contains(claim.parent)) {
        return claim.parent;
    }
    const auto shim = read_process(guest.pid);
    const pid_t parent = shim ? shim->parent : 0;
    if (shim && !parents_.insert(parent).second) {
        return parent;
    }
    const auto found = ancestors(guest.pid);
    if (std::ranges::find(found, ::getpid(), &Process::pid) == found.end()) {
        has_stranger_ = true;
        for (const auto& process : found) {
            starters_.insert_or_assign(process.pid, process.start_time);
        }
    }
    return parent;
}

/// A kernel without pidfds leaves it to mpirun. One that has ended already the shim notices.
void BroughtRanks::watch_parent(pid_t parent) {
    if (watched_parents_.contains(parent)) {
        return;
    }
    if (auto pidfd = open_pidfd(parent)) {
        to_.loop.watch(pidfd.get(), EPOLLIN,
                       [this, parent](std::uint32_t) { parent_ended(parent); });
        watched_parents_.emplace(parent, std::move(pidfd));
    }
}

/// Who starts ranks one after the other is not to wait for us each time that one of them calls or
/// ends: all others would, too. SCHED_BATCH takes no CPU from who runs. Another policy than the
/// usual one is somebody's wish.
void BroughtRanks::make_way() {
    if (::sched_getscheduler(0) == SCHED_OTHER) {
        const sched_param none{};
        (void)::sched_setscheduler(0, SCHED_BATCH, &none);
    }
}

void BroughtRanks::parent_ended(pid_t parent) {
    auto& pidfd = watched_parents_.at(parent);
    to_.loop.forget(pidfd.get());
    pidfd.reset();
    for (const auto& rank : ranks_) {
        if (rank.killed_with == parent && !rank.is_over && rank.ended_ns == 0) {
            (void)send_signal_by(rank.pidfd.get(), *rank.pid, SIGKILL);
        }
    }
}

void BroughtRanks::leave_out_starters(std::vector<Process>& processes) const {
    std::erase_if(processes, [this](const Process& process) {
        const auto starter = starters_.find(process.pid);
        return starter != starters_.end() && starter->second == process.start_time;
    });
}

}  // namespace hvd::launch::agent
