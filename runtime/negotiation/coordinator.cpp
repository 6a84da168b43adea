// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/coordinator.hpp"

#include <utility>

namespace hvd::rt {
namespace {

std::vector<std::vector<std::int64_t>> rows_of(const std::vector<Announcement>& said) {
    const auto& members = said.front().members;
    std::vector<std::vector<std::int64_t>> rows(members.size());
    for (std::size_t index = 0; index < members.size(); ++index) {
        if (members[index].signature.op == coll::Op::allgather) {
            for (const auto& announcement : said) {
                rows[index].push_back(announcement.members[index].signature.shape.front());
            }
        }
    }
    return rows;
}

}  // namespace

Coordinator::Coordinator(int ranks, const CacheLimits& limits) : limits_(limits), table_(ranks) {}

std::vector<Verdict> Coordinator::announce(int rank, Announcement announcement) {
    std::vector<Verdict> verdicts;
    const auto unit = unit_name(announcement);
    // A rank that announces a unit with an id has changed it; the others may be using the id.
    retire(unit, verdicts);
    const auto said = table_.announce(rank, std::move(announcement));
    if (!said) {
        return verdicts;
    }
    Decision decision{.unit = unit, .id = kNoId, .rows = {}, .error = find_disagreement(*said)};
    if (!decision.error) {
        decision.rows = rows_of(*said);
        decision.id = fresh_id(unit, verdicts);
    }
    give(std::move(decision), verdicts);
    return verdicts;
}

std::uint32_t Coordinator::fresh_id(const std::string& unit, std::vector<Verdict>& verdicts) {
    if (limits_.capacity == 0) {
        return kNoId;
    }
    if (ids_.size() >= limits_.capacity) {
        retire(std::string(by_age_.begin()->second), verdicts);
    }
    std::uint32_t id = kNoId;
    if (!retired_.empty() && given_ - retired_.front().since >= limits_.quarantine) {
        id = retired_.front().id;
        retired_.pop_front();
    } else if (unused_ < limits_.ids) {
        id = unused_++;
    } else {
        return kNoId;  // all are in quarantine: this time the unit goes without
    }
    ids_[unit] = {id, given_};
    by_age_.emplace(given_, unit);
    return id;
}

void Coordinator::retire(const std::string& unit, std::vector<Verdict>& verdicts) {
    const auto found = ids_.find(unit);
    if (found == ids_.end()) {
        return;
    }
    give(Invalidation{found->second.id}, verdicts);
    retired_.push_back({found->second.id, given_});
    by_age_.erase(found->second.since);
    ids_.erase(found);
}

void Coordinator::give(Verdict verdict, std::vector<Verdict>& verdicts) {
    ++given_;
    verdicts.push_back(std::move(verdict));
}

}  // namespace hvd::rt
