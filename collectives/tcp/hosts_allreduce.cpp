// SPDX-License-Identifier: Apache-2.0
#include "collectives/tcp/hosts_allreduce.hpp"

#include "collectives/algorithms/hierarchical_allreduce.hpp"
#include "collectives/deferred_work.hpp"

#include <utility>

namespace hvd::coll::tcp {

bool HostsAllreduce::suits(const Task& task) {
    return HierarchicalAllreduceSchedule::suits(task);
}

HostsAllreduce::HostsAllreduce(TcpEndpoint& far,
                               shm::HostMemory& memory,
                               const ProcessSet& set,
                               HostGrid grid)
    : far_(far), grid_(std::move(grid)), arena_(memory, members_at(set, grid_.on_host())) {}

std::unique_ptr<Work> HostsAllreduce::start(ScratchPool& pool, const Task& task) {
    if (arena_.find()) {
        return begin(pool, task);
    }
    return std::make_unique<DeferredWork>(
        [this, &pool, task] { return arena_.find() ? begin(pool, task) : nullptr; });
}

std::unique_ptr<Work> HostsAllreduce::begin(ScratchPool& pool, const Task& task) {
    if (!at_) {
        near_.emplace(arena_.get());
        at_.emplace(far_, *near_, grid_.on_host());
    }
    return arena_.keep_pages(
        std::make_unique<ScheduledWork<HostsEndpoint, HierarchicalAllreduceSchedule>>(*at_, pool,
                                                                                      task, grid_));
}

}  // namespace hvd::coll::tcp
