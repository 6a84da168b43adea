// SPDX-License-Identifier: Apache-2.0
#include "runtime/fusion/planner.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {
namespace {

struct OpenGroup {
    FusionKind kind;
    std::size_t bytes;
    FusionGroup members;

    /// An item of its kind.
    [[nodiscard]] bool takes(const FusionItem& item, std::size_t limit_bytes) const noexcept {
        // Subtract, do not add: the sum of two sizes may wrap, the difference cannot.
        return bytes <= limit_bytes && item.bytes <= limit_bytes - bytes &&
               (kind.devices == nullptr || members.size() < coll::kMostOnDevice);
    }
};

/// Whether a tensor is not fused with others: it is too large, or fusion gains nothing since the
/// results of fused tensors would not be contiguous, or since there is nothing to move.
bool travels_alone(const FusionItem& item, std::size_t limit_bytes) noexcept {
    const bool is_fusible =
        item.kind.op == coll::Op::allreduce || item.kind.op == coll::Op::broadcast;
    return limit_bytes == 0 || item.bytes > limit_bytes || !is_fusible;
}

}  // namespace

std::vector<FusionGroup> plan_fusion(std::span<const FusionItem> items, std::size_t limit_bytes) {
    // Looking back over the open groups, not only the last one, lets an f16 tensor between two f32
    // tensors join its own kind. A group that cannot take what comes is full for good: `open` holds
    // one group for each kind in use, whatever the number of tensors.
    std::vector<OpenGroup> groups;
    std::vector<std::size_t> open;
    for (std::size_t index = 0; index < items.size(); ++index) {
        const auto& item = items[index];
        if (travels_alone(item, limit_bytes)) {
            groups.push_back({item.kind, item.bytes, {index}});
            continue;
        }
        const auto same_kind = std::ranges::find_if(
            open, [&](std::size_t group) { return groups[group].kind == item.kind; });
        if (same_kind != open.end() && groups[*same_kind].takes(item, limit_bytes)) {
            groups[*same_kind].bytes += item.bytes;
            groups[*same_kind].members.push_back(index);
            continue;
        }
        if (same_kind == open.end()) {
            open.push_back(groups.size());
        } else {
            *same_kind = groups.size();
        }
        groups.push_back({item.kind, item.bytes, {index}});
    }

    std::vector<FusionGroup> planned;
    planned.reserve(groups.size());
    for (auto& group : groups) {
        planned.push_back(std::move(group.members));
    }
    return planned;
}

}  // namespace hvd::rt
