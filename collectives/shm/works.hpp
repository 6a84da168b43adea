// SPDX-License-Identifier: Apache-2.0
//
// Works that run a task on an arena. All members choose the same one for a task; the arena must
// outlive the Work.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/shm/arena.hpp"

#include <memory>

namespace hvd::coll::shm {

/// Everybody's whole input fits a tiny line or a small slot: one flag each, then everybody does all
/// of the work. `bytes` is the largest input of any rank.
[[nodiscard]] std::unique_ptr<Work> start_exchange(Arena& arena,
                                                   const Task& task,
                                                   std::size_t bytes);

/// Allreduce of any size but 0.
[[nodiscard]] std::unique_ptr<Work> start_swap(Arena& arena, const Task& task);

/// Reducescatter of any size but 0.
[[nodiscard]] std::unique_ptr<Work> start_reducescatter(Arena& arena, const Task& task);

/// Allgather and broadcast of any size but 0. `bytes` is the largest input of any rank.
[[nodiscard]] std::unique_ptr<Work> start_gather(Arena& arena, const Task& task, std::size_t bytes);

}  // namespace hvd::coll::shm
