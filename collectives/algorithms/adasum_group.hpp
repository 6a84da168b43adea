// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/process_set.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace hvd::coll {

/// The members of a process set whose gradients the tree of Adasum combines: all of them, or the
/// first one of each host for all of the host's.
class AdasumGroup {
public:
    /// All: each has its own place.
    AdasumGroup(int size, int place)
        : leaders_(static_cast<std::size_t>(size)), place_(place), own_(place) {
        std::iota(leaders_.begin(), leaders_.end(), 0);
    }

    /// One for each host, in the order of their places.
    AdasumGroup(std::span<const int> hosts, int place) : own_(place) {
        for (const auto& places : places_by_host(hosts)) {
            if (std::ranges::find(places, place) != places.end()) {
                place_ = size();
                others_.assign(places.begin() + 1, places.end());
            }
            has_others_ = has_others_ || places.size() > 1;
            leaders_.push_back(places.front());
        }
    }

    /// Gradients in the tree, and which of them this member's is a part of.
    [[nodiscard]] int size() const noexcept { return static_cast<int>(leaders_.size()); }
    [[nodiscard]] int place() const noexcept { return place_; }

    /// The member, by its place in the set, that has a gradient of the tree.
    [[nodiscard]] int at(int index) const { return leaders_[static_cast<std::size_t>(index)]; }
    [[nodiscard]] int leader() const { return at(place_); }
    [[nodiscard]] bool is_leader() const { return leader() == own_; }

    /// The members of this member's host without their leader, ascending.
    [[nodiscard]] const std::vector<int>& others() const noexcept { return others_; }

    /// Whether any host has some.
    [[nodiscard]] bool has_others() const noexcept { return has_others_; }

private:
    std::vector<int> leaders_;  // by gradient
    int place_ = 0;
    int own_;
    std::vector<int> others_;
    bool has_others_ = false;
};

}  // namespace hvd::coll
