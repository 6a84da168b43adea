// SPDX-License-Identifier: Apache-2.0
//
// The results of collectives, of 64-bit integers and of doubles that hold integers.
#pragma once

#include "collectives/types.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace hvd::sim {

/// The result of the member at `place`: the bytes of all its segments' outputs.
[[nodiscard]] std::vector<std::byte> result_of(std::span<const coll::Task* const> tasks,
                                               std::size_t place);

/// Copies them to where the task wants them.
void write_result(const coll::Task& task, std::size_t place, std::span<const std::byte> result);

}  // namespace hvd::sim
