// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/types.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hvd::rt {

/// The properties that must be equal for two tensors to travel as one collective.
struct FusionKind {
    coll::Op op = coll::Op::allreduce;
    coll::ReduceOp reduce = coll::ReduceOp::sum;
    coll::DataType type = coll::DataType::f32;
    const coll::DeviceList* devices = nullptr;  // of all members; nullptr: the hosts' memory
    double prescale = 1;
    double postscale = 1;
    int root = 0;     // a rank of the world
    int divisor = 0;  // of an average, where it is not the size of the set

    friend bool operator==(const FusionKind&, const FusionKind&) = default;
};

/// A tensor that every rank has agreed to send, as the planner sees it.
struct FusionItem {
    std::size_t bytes = 0;
    FusionKind kind;
};

/// Indices into the planner's input, in input order, that travel as one collective.
using FusionGroup = std::vector<std::size_t>;

/// Packs tensors of one kind into groups of at most `limit_bytes`; on devices also of at most
/// coll::kMostOnDevice tensors.
///
/// Every rank calls this with the same input and must get the same output, so it looks at nothing
/// else: no clock, no environment, no hash order. An item larger than the limit travels alone, and
/// so does every item where the limit is 0.
[[nodiscard]] std::vector<FusionGroup> plan_fusion(std::span<const FusionItem> items,
                                                   std::size_t limit_bytes);

}  // namespace hvd::rt
