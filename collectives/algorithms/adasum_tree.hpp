// SPDX-License-Identifier: Apache-2.0
//
// The tree by which Adasum combines the gradients of any number of members.
//
// Of n members, m is the largest power of two that is at most n. First the 2 (n - m) lowest places
// are combined in neighbouring pairs, (0, 1), (2, 3), ..., so that m gradients are left, in the
// order of their places. Of these, neighbours are combined, then neighbouring pairs, and so on: 0
// to 2 of 3 members are ((0 1) 2); 0 to 4 of 5 are (((0 1) 2) (3 4)).
#pragma once

#include <bit>

namespace hvd::coll {

/// The part of one member.
class AdasumTree {
public:
    AdasumTree(int size, int place) noexcept
        : place_(place),
          extra_(size - static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))),
          levels_(std::countr_zero(static_cast<unsigned>(size - extra_))),
          index_(place < 2 * extra_ ? place / 2 : place - extra_) {}

    /// Whether some members are combined in pairs first, so that a power of two is left.
    [[nodiscard]] bool has_fold() const noexcept { return extra_ > 0; }

    /// Whether this member is of such a pair, and then the other one.
    [[nodiscard]] bool is_folded() const noexcept { return place_ < 2 * extra_; }
    [[nodiscard]] int neighbour() const noexcept { return place_ ^ 1; }

    /// Whether the other one of the pair combines this member's gradient.
    [[nodiscard]] bool is_left_out() const noexcept { return is_folded() && place_ % 2 == 1; }

    /// Levels of the tree of powers of two; in each, a member has a partner.
    [[nodiscard]] int levels() const noexcept { return levels_; }
    [[nodiscard]] bool is_left(int level) const noexcept { return ((index_ >> level) & 1) == 0; }
    [[nodiscard]] int partner(int level) const noexcept {
        const int index = index_ ^ (1 << level);
        return index < extra_ ? 2 * index : index + extra_;
    }

private:
    int place_;
    int extra_;  // members beyond the power of two
    int levels_;
    int index_;  // of this member's gradient among those that the pairs leave
};

}  // namespace hvd::coll
