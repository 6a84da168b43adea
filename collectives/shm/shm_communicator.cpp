// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/shm_communicator.hpp"

#include "collectives/algorithms/schedules.hpp"
#include "collectives/deferred_work.hpp"
#include "collectives/done_work.hpp"
#include "collectives/shm/works.hpp"

#include <algorithm>
#include <vector>

namespace hvd::coll::shm {
namespace {

/// Of any member: the same number on all of them, which decides how they work together.
[[nodiscard]] std::size_t largest_input(const Task& task, int members) {
    if (task.op != Op::allgather) {
        return input_bytes(task);
    }
    std::size_t largest = 0;
    for (std::size_t place = 0; place < static_cast<std::size_t>(members); ++place) {
        std::size_t elements = 0;
        for (const auto& segment : task.segments) {
            elements += segment.counts[place];
        }
        largest = std::max(largest, elements);
    }
    return largest * size_of(task.type);
}

}  // namespace

ShmCommunicator::ShmCommunicator(const Backend& backend, HostMemory& memory)
    : HostCommunicator(backend), arena_(memory) {}

ShmCommunicator::ShmCommunicator(const Backend& backend, HostMemory& memory, const ProcessSet& set)
    : HostCommunicator(backend), arena_(memory, set) {}

std::unique_ptr<Work> ShmCommunicator::do_start(const Task& task) {
    if (arena_.find()) {
        return begin(task);
    }
    return std::make_unique<DeferredWork>(
        [this, task] { return arena_.find() ? begin(task) : nullptr; });
}

std::unique_ptr<Work> ShmCommunicator::begin(const Task& task) {
    auto& arena = arena_.get();
    const bool has_adasum = task.op == Op::allreduce && is_adasum(task.reduce);
    const std::size_t bytes = largest_input(task, arena.size());
    // How much a member of an alltoall puts in, the others do not know.
    if (bytes == 0 && task.op != Op::barrier && task.op != Op::alltoall) {
        return std::make_unique<DoneWork>();
    }
    if (bytes <= kSmallBytes && !has_adasum && task.op != Op::alltoall) {
        return start_exchange(arena, task, bytes);
    }
    return arena_.keep_pages(begin_long(task, bytes));
}

std::unique_ptr<Work> ShmCommunicator::begin_long(const Task& task, std::size_t bytes) {
    auto& arena = arena_.get();
    const bool has_adasum = task.op == Op::allreduce && is_adasum(task.reduce);
    if (has_adasum || task.op == Op::alltoall) {
        if (!endpoint_) {
            endpoint_.emplace(arena);
        }
        const std::vector<int> one_host(static_cast<std::size_t>(arena.size()));
        return start_schedule(*endpoint_, arena_.memory().scratch, task, one_host);
    }
    if (task.op == Op::allreduce) {
        return start_swap(arena, task);
    }
    return task.op == Op::reducescatter ? start_reducescatter(arena, task)
                                        : start_gather(arena, task, bytes);
}

}  // namespace hvd::coll::shm
