// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/cpu_shares.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace hvd::launch {
namespace {

/// Part `index` of `total` when it is divided evenly into `parts`.
std::size_t part(std::size_t total, std::size_t parts, std::size_t index) noexcept {
    return total * (index + 1) / parts - total * index / parts;
}

}  // namespace

std::vector<std::vector<int>> share_cpus(std::span<const int> allowed,
                                         const std::vector<std::vector<int>>& near) {
    const std::size_t ranks = near.size();
    std::vector<std::vector<int>> shares(ranks);
    if (ranks == 0 || allowed.size() < ranks) {
        return shares;
    }
    std::vector<std::size_t> quota;
    std::map<std::vector<int>, std::vector<std::size_t>> places;  // near CPUs → ranks
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        quota.push_back(part(allowed.size(), ranks, rank));
        places[near[rank]].push_back(rank);
    }

    std::vector<int> free(allowed.begin(), allowed.end());
    const auto give = [&](std::size_t rank, std::span<const int> cpus) {
        for (const int cpu : cpus) {
            shares[rank].push_back(cpu);
            std::erase(free, cpu);
        }
    };
    for (const auto& [place, members] : places) {
        std::vector<int> here;
        std::ranges::copy_if(free, std::back_inserter(here), [&place = place](int cpu) {
            return std::ranges::find(place, cpu) != place.end();
        });
        std::size_t next = 0;
        for (std::size_t index = 0; index < members.size(); ++index) {
            const auto count =
                std::min(quota[members[index]], part(here.size(), members.size(), index));
            give(members[index], std::span(here).subspan(next, count));
            next += count;
        }
    }
    // CPUs that a place lacks come from the rest, in order.
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const auto missing = quota[rank] - shares[rank].size();
        const std::vector<int> rest(free.begin(),
                                    free.begin() + static_cast<std::ptrdiff_t>(missing));
        give(rank, rest);
        std::ranges::sort(shares[rank]);
    }
    return shares;
}

}  // namespace hvd::launch
