// SPDX-License-Identifier: Apache-2.0
//
// Which ranks take part in a collective: a value that goes with every task through the seam.
#pragma once

#include "collectives/topology.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hvd::coll {

struct ProcessSet {
    int id = 0;              // 0: the world; negative: a part of the set -1 - id, in a backend
    std::vector<int> ranks;  // of the world, ascending
    int place = 0;           // this rank's index in `ranks`; -1: not a member
    std::vector<int> hosts;  // of each member, in the order of `ranks`: equal numbers, same host
    /// Tells a set from earlier ones of the same id: the same number on all members.
    std::uint32_t incarnation = 0;

    [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks.size()); }
    [[nodiscard]] bool is_member() const noexcept { return place >= 0; }
    [[nodiscard]] bool is_on_one_host() const noexcept;
    /// Not for a rank that is no member.
    [[nodiscard]] int rank_at(int at) const { return ranks.at(static_cast<std::size_t>(at)); }

    friend bool operator==(const ProcessSet&, const ProcessSet&) = default;
};

/// The places of the members of each host, ascending; hosts in the order of their first members.
/// `hosts` as in ProcessSet.
[[nodiscard]] std::vector<std::vector<int>> places_by_host(std::span<const int> hosts);

/// The members at these places, as the member at `set.place` sees them.
[[nodiscard]] ProcessSet members_at(const ProcessSet& set, std::span<const int> places);

/// All ranks. Where they are on several hosts, each rank counts as alone on its host.
[[nodiscard]] ProcessSet world_of(const Topology& topology);

}  // namespace hvd::coll
