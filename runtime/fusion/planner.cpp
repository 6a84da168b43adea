// SPDX-License-Identifier: Apache-2.0
#include "runtime/fusion/planner.hpp"

#include <algorithm>

namespace hvd::rt {

/// Looking back over the open groups, not only the last one, lets an f16 tensor between two f32
/// tensors join its own kind. A group that cannot take what comes is full for good: there is one
/// open group for each kind in use, whatever the number of tensors.
std::size_t FusionPlanner::place(const FusionItem& item) {
    if (travels_alone(item)) {
        return add_group(item);
    }
    const auto same_kind = std::ranges::find_if(
        open_, [&](std::size_t group) { return groups_[group].kind == item.kind; });
    if (same_kind == open_.end()) {
        return open_.emplace_back(add_group(item));
    }
    auto& group = groups_[*same_kind];
    if (!takes(group, item)) {
        return *same_kind = add_group(item);
    }
    group.bytes += item.bytes;
    ++group.tensors;
    return *same_kind;
}

std::size_t FusionPlanner::add_group(const FusionItem& item) {
    groups_.push_back({.kind = item.kind, .bytes = item.bytes, .tensors = 1});
    return groups_.size() - 1;
}

bool FusionPlanner::takes(const Group& group, const FusionItem& item) const noexcept {
    // Subtract, do not add: the sum of two sizes may wrap, the difference cannot.
    return group.bytes <= limit_bytes_ && item.bytes <= limit_bytes_ - group.bytes &&
           (group.kind.devices == nullptr || group.tensors < coll::kMostOnDevice);
}

/// Whether a tensor is not fused with others: it is too large, or fusion gains nothing since the
/// results of fused tensors would not be contiguous, or since there is nothing to move.
bool FusionPlanner::travels_alone(const FusionItem& item) const noexcept {
    const bool is_fusible =
        item.kind.op == coll::Op::allreduce || item.kind.op == coll::Op::broadcast;
    return limit_bytes_ == 0 || item.bytes > limit_bytes_ || !is_fusible;
}

}  // namespace hvd::rt
