// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/rank_parents.hpp"

#include "collectives/base/pidfd.hpp"

#include <algorithm>
#include <utility>

#include <sys/epoll.h>
#include <unistd.h>

namespace hvd::launch::agent {

pid_t RankParents::parent_of(pid_t shim, const ShimClaim& claim) {
    if (claim.pid == shim && parents_.contains(claim.parent)) {
        return claim.parent;
    }
    const auto process = read_process(shim);
    const pid_t parent = process ? process->parent : 0;
    if (process && !parents_.insert(parent).second) {
        return parent;
    }
    const auto found = ancestors(shim);
    if (std::ranges::find(found, ::getpid(), &Process::pid) == found.end()) {
        has_non_descendant_ = true;
        for (const auto& ancestor : found) {
            ancestors_.insert_or_assign(ancestor.pid, ancestor.start_time);
        }
    }
    return parent;
}

void RankParents::watch(pid_t parent) {
    if (watched_.contains(parent)) {
        return;
    }
    if (auto pidfd = open_pidfd(parent)) {
        loop_.watch(pidfd.get(), EPOLLIN, [this, parent](std::uint32_t) {
            auto& ended = watched_.at(parent);
            loop_.forget(ended.get());
            ended.reset();
            on_end_(parent);
        });
        watched_.emplace(parent, std::move(pidfd));
    }
}

void RankParents::remove_from(std::vector<Process>& processes) const {
    std::erase_if(processes, [this](const Process& process) {
        const auto found = ancestors_.find(process.pid);
        return found != ancestors_.end() && found->second == process.start_time;
    });
}

}  // namespace hvd::launch::agent
