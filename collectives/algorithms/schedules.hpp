// SPDX-License-Identifier: Apache-2.0
//
// Which schedule runs a task over an endpoint. All members choose the same one.
#pragma once

#include "collectives/algorithms/adasum.hpp"
#include "collectives/algorithms/allreduce.hpp"
#include "collectives/algorithms/copies.hpp"
#include "collectives/algorithms/reducescatter.hpp"
#include "collectives/algorithms/scheduled_work.hpp"
#include "collectives/algorithms/scratch.hpp"
#include "collectives/done_work.hpp"

#include <memory>
#include <span>

namespace hvd::coll {

/// `at` and `pool` outlive the Work; `hosts` as in ProcessSet. Throws Exception for a task that has
/// no meaning, such as the Adasum of integers.
template <Endpoint At>
[[nodiscard]] std::unique_ptr<Work> start_schedule(At& at,
                                                   ScratchPool& pool,
                                                   const Task& task,
                                                   std::span<const int> hosts) {
    switch (task.op) {
        case Op::allreduce:
            if (is_adasum(task.reduce)) {
                return std::make_unique<ScheduledWork<At, AdasumSchedule>>(at, pool, task, hosts);
            }
            if (input_bytes(task) == 0) {
                return std::make_unique<DoneWork>();
            }
            return std::make_unique<ScheduledWork<At, AllreduceSchedule>>(at, pool, task);
        case Op::allgather: return std::make_unique<ScheduledWork<At, AllgatherSchedule>>(at, task);
        case Op::broadcast: return std::make_unique<ScheduledWork<At, BroadcastSchedule>>(at, task);
        case Op::barrier: return std::make_unique<ScheduledWork<At, BarrierSchedule>>(at);
        case Op::alltoall: return std::make_unique<ScheduledWork<At, AlltoallSchedule>>(at, task);
        case Op::reducescatter:
            return std::make_unique<ScheduledWork<At, ReducescatterSchedule>>(at, pool, task);
    }
    return nullptr;
}

}  // namespace hvd::coll
