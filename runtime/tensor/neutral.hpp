// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/types.hpp"

#include <cstddef>
#include <span>

namespace hvd::rt {

/// Fills `memory` with the value that a reduction by `op` leaves the other inputs as they are with:
/// what a rank that has joined puts in.
void fill_neutral(coll::ReduceOp op, coll::DataType type, std::span<std::byte> memory);

}  // namespace hvd::rt
