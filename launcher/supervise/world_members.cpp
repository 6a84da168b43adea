// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/world_members.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {
namespace {

std::vector<int> living_ranks(const JobRecord& record) {
    std::vector<int> ranks;
    for (const auto& rank : record.ranks) {
        const auto is_its_host = [&](const HostLoss& loss) { return loss.host == rank.host; };
        if (!rank.has_ended() && std::ranges::none_of(record.lost_hosts, is_its_host)) {
            ranks.push_back(rank.rank);
        }
    }
    return ranks;
}

}  // namespace

std::vector<WorldMembers::Decision> WorldMembers::decide(const JobRecord& record) {
    std::vector<Decision> decisions;
    if (askers_.empty()) {
        return decisions;
    }
    const auto living = living_ranks(record);
    std::erase_if(askers_, [&](const auto& entry) {
        const auto& asked = entry.second;
        if (!std::ranges::all_of(living, [&](int rank) { return asked.contains(rank); })) {
            return false;
        }
        Decision decision{.ranks = living, .askers = {}};
        for (const int rank : living) {
            decision.askers.push_back(asked.at(rank));
        }
        decisions.push_back(std::move(decision));
        return true;
    });
    return decisions;
}

}  // namespace hvd::launch
