// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/slots.hpp"

#include <algorithm>
#include <numeric>

namespace hvd::launch {
namespace {

/// Those with slots.
std::string describe(std::span<const Capacity> hosts) {
    constexpr std::size_t kMostNamed = 8;
    std::string text;
    std::size_t named = 0;
    for (const auto& host : hosts) {
        if (host.slots == 0) {
            continue;  // it takes no ranks, as a launch node
        }
        if (named++ == kMostNamed) {
            return text + ",...";
        }
        text += (text.empty() ? "" : ",") + host.host + ":" + std::to_string(host.slots);
    }
    return text;
}

}  // namespace

Result<std::vector<int>> fill_hosts(std::span<const Capacity> hosts, std::optional<int> processes) {
    const int slots = std::accumulate(hosts.begin(), hosts.end(), 0,
                                      [](int sum, const auto& host) { return sum + host.slots; });
    int left = processes.value_or(slots);
    std::vector<int> ranks_on;
    ranks_on.reserve(hosts.size());
    for (const auto& host : hosts) {
        ranks_on.push_back(std::min(left, host.slots));
        left -= ranks_on.back();
    }

    auto elastic = static_cast<int>(
        std::ranges::count_if(hosts, [](const Capacity& host) { return !host.is_written; }));
    if (left > 0 && elastic == 0) {
        return Error{Errc::invalid_argument,
                     "-np " + std::to_string(*processes) + " is more than the " +
                         std::to_string(slots) + " slots that were given (" + describe(hosts) +
                         "); write more slots for a host, or a smaller -np"};
    }
    for (std::size_t index = 0; index < hosts.size() && left > 0; ++index) {
        if (!hosts[index].is_written) {
            const int share = (left + elastic - 1) / elastic;
            ranks_on[index] += share;
            left -= share;
            --elastic;
        }
    }
    return ranks_on;
}

std::vector<coll::Topology> number_ranks(std::span<const int> ranks_on) {
    std::vector<coll::Topology> ranks;
    const int size = std::accumulate(ranks_on.begin(), ranks_on.end(), 0);
    std::vector<int> hosts_with;  // how many hosts so far have a rank with this local rank
    for (const int local_size : ranks_on) {
        hosts_with.resize(std::max(hosts_with.size(), static_cast<std::size_t>(local_size)));
        for (int local_rank = 0; local_rank < local_size; ++local_rank) {
            const int cross_rank = hosts_with[static_cast<std::size_t>(local_rank)]++;
            ranks.push_back({.rank = static_cast<int>(ranks.size()),
                             .size = size,
                             .local_rank = local_rank,
                             .local_size = local_size,
                             .cross_rank = cross_rank,
                             .cross_size = 1});
        }
    }
    for (auto& rank : ranks) {
        rank.cross_size = hosts_with[static_cast<std::size_t>(rank.local_rank)];
    }
    return ranks;
}

}  // namespace hvd::launch
