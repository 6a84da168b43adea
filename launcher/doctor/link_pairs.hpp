// SPDX-License-Identifier: Apache-2.0
//
// Which pairs of hosts the doctor measures, and which of them at the same time. Pure.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace hvd::launch {

/// Two hosts by their place in a list, the earlier one first.
using HostPair = std::pair<std::size_t, std::size_t>;

/// Up to so many hosts all pairs are measured.
inline constexpr std::size_t kMostHostsOfAllPairs = 8;

[[nodiscard]] std::size_t count_pairs(std::size_t hosts) noexcept;

/// All pairs; of more than kMostHostsOfAllPairs hosts a ring, and each host of the first half with
/// the one that is half the list away. Each pair stands once.
[[nodiscard]] std::vector<HostPair> choose_pairs(std::size_t hosts);

/// Hands out pairs so that each host is in one at a time.
class PairSchedule final {
public:
    PairSchedule(std::vector<HostPair> pairs, std::size_t hosts);

    /// Those that may begin now, by their place in the list; their hosts are busy from now on.
    [[nodiscard]] std::vector<std::size_t> begin();
    void end(std::size_t pair);

    [[nodiscard]] const HostPair& pair(std::size_t index) const { return pairs_.at(index); }
    [[nodiscard]] bool is_over() const noexcept { return waiting_.empty() && under_way_ == 0; }

private:
    std::vector<HostPair> pairs_;
    std::vector<std::size_t> waiting_;
    std::vector<bool> is_busy_;  // by host
    std::size_t under_way_ = 0;
};

}  // namespace hvd::launch
