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
    coll::Wire wire = coll::Wire::own;
    const coll::DeviceList* devices = nullptr;  // of all members; nullptr: the hosts' memory
    double prescale = 1;
    double postscale = 1;
    int root = 0;     // a rank of the world
    int divisor = 0;  // of an average, where it is not the size of the set

    friend bool operator==(const FusionKind&, const FusionKind&) = default;
};

/// A tensor that every rank has agreed to send, as the planner sees it.
struct FusionItem {
    std::size_t bytes = 0;  // that travel
    FusionKind kind;
};

/// Packs tensors of one kind into groups of at most `limit_bytes`; on devices also of at most
/// coll::kMostOnDevice tensors. Each group travels as one collective.
///
/// Every rank gives its planner the same tensors in the same order and must get the same groups, so
/// it looks at nothing else: no clock, no environment, no hash order. An item larger than the limit
/// travels alone, and so does every item where the limit is 0.
class FusionPlanner {
public:
    explicit FusionPlanner(std::size_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}

    /// The group of the next tensor. Groups are numbered from 0 in the order of their first
    /// tensors.
    [[nodiscard]] std::size_t place(const FusionItem& item);

private:
    struct Group {
        FusionKind kind;
        std::size_t bytes = 0;
        std::size_t tensors = 0;
    };

    std::size_t add_group(const FusionItem& item);
    [[nodiscard]] bool takes(const Group& group, const FusionItem& item) const noexcept;
    [[nodiscard]] bool travels_alone(const FusionItem& item) const noexcept;

    std::size_t limit_bytes_;
    std::vector<Group> groups_;
    std::vector<std::size_t> open_;  // the last group of each kind
};

}  // namespace hvd::rt
