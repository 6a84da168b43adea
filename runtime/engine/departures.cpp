// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/departures.hpp"

#include "runtime/engine/set_negotiation.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {

Departures::Departures(const ProcessSetTable& sets,
                       const Channel& channel,
                       std::function<void(int)> on_missed)
    : sets_(sets),
      channel_(channel),
      on_missed_(std::move(on_missed)),
      own_rank_(sets.world().set.rank_at(sets.world().set.place)) {}

std::vector<int> Departures::add(int rank) {
    ranks_.push_back(rank);
    std::vector<int> ended;
    for (const int id : sets_.ids()) {
        const auto& members = sets_.find(id)->set.ranks;
        if (std::ranges::find(members, rank) != members.end() &&
            ended_.try_emplace(id, rank).second) {
            ended.push_back(id);
        }
    }
    return ended;
}

std::optional<int> Departures::cause_of(int set) const {
    const auto found = ended_.find(set);
    return found == ended_.end() ? std::nullopt : std::optional(found->second);
}

Error Departures::miss(const Operation& leader, int rank) const {
    if (rank == own_rank_) {
        return not_finished(shut_down_error(), leader);
    }
    on_missed_(rank);
    return {Errc::aborted,
            channel_.describe(rank) + " has shut down" + describe_need(leader, rank)};
}

bool Departures::has_live_set() const {
    return std::ranges::any_of(sets_.ids(), [&](int id) { return !ended_.contains(id); });
}

Error shut_down_error() {
    return {Errc::aborted, "this rank has shut its runtime down"};
}

std::string describe_need(const Operation& leader, int rank) {
    const auto& members = leader.set->set.ranks;
    if (std::ranges::find(members, rank) == members.end()) {
        return ", which coordinates all process sets";
    }
    if (leader.name == nullptr) {
        return {};
    }
    return " while '" + leader.name->text +
           "' waited for it; if the ranks have different numbers of batches, see drop_last and "
           "hvd.join()";
}

}  // namespace hvd::rt
