// SPDX-License-Identifier: Apache-2.0
//
// From operations to the task of a collective, and between their tensors and one piece of memory.
#pragma once

#include "collectives/process_set.hpp"
#include "collectives/types.hpp"
#include "runtime/tensor/operation.hpp"

#include <cstddef>
#include <span>

namespace hvd::rt {

/// Fills `task` for operations of `set` that travel together; never none.
void build_task(std::span<Operation* const> operations,
                const coll::ProcessSet& set,
                coll::Task& task);

/// Copies what the member at `place` puts in into `memory`, as it travels, and makes that the
/// task's one segment.
void pack(coll::Task& task, int place, std::span<std::byte> memory);

/// Copies the results from `memory` to where the operations of `set` want them.
void unpack(std::span<const std::byte> memory,
            std::span<Operation* const> operations,
            const coll::ProcessSet& set);

}  // namespace hvd::rt
