// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/coordinator.hpp"

#include "runtime/negotiation/terms.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hvd::rt {
namespace {

bool is_member(const ReadinessTable& table, int rank) {
    return std::ranges::binary_search(table.ranks(), rank);
}

/// Whether 0, times any factor, leaves the result as it is.
bool is_sum(coll::ReduceOp op) {
    return op == coll::ReduceOp::sum || op == coll::ReduceOp::average || coll::is_adasum(op);
}

/// Why the operation cannot go without the ranks that have joined, or nothing.
std::string reason_to_need_all(const Signature& signature) {
    if (signature.kind != Kind::collective) {
        return "process sets cannot change";
    }
    if (signature.op == coll::Op::barrier) {
        return {};
    }
    if (signature.op != coll::Op::allreduce) {
        return std::string(to_string(signature.op)) + " needs a tensor of every rank";
    }
    if (signature.prescale != 1 && !is_sum(signature.reduce)) {
        return std::string(to_string(signature.reduce)) +
               " with a prescale factor needs a tensor of every rank";
    }
    return {};
}

/// Why what the others announce cannot go without the ranks that have joined.
std::optional<Error> refusal_while_joined(const Decision& decision) {
    for (const auto& member : decision.members) {
        const auto why = reason_to_need_all(member.signature);
        if (!why.empty()) {
            return Error{Errc::mismatch, "tensor '" + member.name + "': " + why + ", but " +
                                             describe_ranks(decision.joined) +
                                             (decision.joined.size() == 1 ? " has" : " have") +
                                             " joined"};
        }
    }
    return std::nullopt;
}

}  // namespace

Coordinator::Coordinator(int ranks, const CacheLimits& limits)
    : ranks_(static_cast<std::size_t>(ranks)), pool_(limits) {
    std::vector<int> world(ranks_);
    std::iota(world.begin(), world.end(), 0);
    sets_.emplace(0, SetState(std::move(world)));
}

Result<std::vector<LogEntry>> Coordinator::announce(int rank,
                                                    Announcement announcement,
                                                    Waiting::TimePoint now) {
    std::vector<LogEntry> entries;
    if (announcement.members.front().signature.kind == Kind::join) {
        announce_join(rank, announcement.members.front().signature.device, entries);
        return entries;
    }
    const int set_id = announcement.process_set;
    const auto found = sets_.find(set_id);
    if (found == sets_.end()) {
        return entries;  // removed or ended meanwhile: the rank reads of it
    }
    auto& table = found->second.table;
    if (!is_member(table, rank)) {
        return Error{Errc::internal, "rank " + std::to_string(rank) +
                                         " announces a tensor of process set " +
                                         std::to_string(set_id) + ", of which it is no member"};
    }
    std::vector<std::string> names;
    for (const auto& member : announcement.members) {
        names.push_back(member.name);
    }
    // A rank that announces a tensor with an id has changed it, or its group; the others may be
    // using the id.
    const auto& cached_with = found->second.cached_with;
    for (const auto& name : names) {
        if (const auto group = cached_with.find(name); group != cached_with.end()) {
            retire(set_id, std::string(group->second), entries);
        }
    }
    if (announcement.asks_for_names) {
        return entries;
    }
    table.announce(rank, std::move(announcement), now);
    for (const auto& name : names) {
        if (auto group = table.take_if_complete(name, joined_)) {
            decide(set_id, rank, *std::move(group), entries);
            break;
        }
    }
    return entries;
}

void Coordinator::on_ready(std::span<const CacheId> ids) {
    if (!awaiting_.empty()) {
        for (const auto id : ids) {
            awaiting_.erase(id);
        }
    }
    if (transient_.empty()) {
        return;
    }
    for (const auto id : ids) {
        const auto found = transient_.find(id);
        if (found != transient_.end()) {
            forget(sets_.at(found->second.process_set), std::string(found->second.group));
        }
    }
}

void Coordinator::on_left(int rank) {
    forget_joins();  // the join of the world has failed
    for (auto each = sets_.begin(); each != sets_.end();) {
        if (is_member(each->second.table, rank)) {
            retire_all(each->second);
            each = sets_.erase(each);
        } else {
            ++each;
        }
    }
}

std::vector<Waiting> Coordinator::waiting() const {
    std::vector<Waiting> list;
    for (const auto& [id, state] : sets_) {
        for (auto& each : state.table.waiting(joined_)) {
            each.process_set = id;
            list.push_back(std::move(each));
        }
    }
    return list;
}

bool Coordinator::has_waiting() const {
    return std::ranges::any_of(sets_,
                               [](const auto& each) { return each.second.table.has_waiting(); });
}

// ---- join ---------------------------------------------------------------------------------------

/// `device`: on which the rank takes part in what others do.
void Coordinator::announce_join(int rank, coll::Device device, std::vector<LogEntry>& entries) {
    if (!sets_.contains(0)) {
        return;  // the world has ended: the rank reads of it
    }
    joined_.push_back(rank);
    if (!device.is_host()) {
        joined_gpus_.insert_or_assign(rank, device.index);
    }
    for (auto& [id, state] : sets_) {
        if (is_member(state.table, rank)) {
            retire_all(state);
        }
    }
    const bool have_all = joined_.size() == ranks_;
    Decision decision;
    decision.members = {{.name = "join", .signature = {.kind = Kind::join}}};
    decision.rank = rank;
    decision.ends_join = have_all;
    append(std::move(decision), entries);
    if (have_all) {
        forget_joins();
    } else {
        decide_waiting(rank, entries);
    }
}

void Coordinator::forget_joins() {
    joined_.clear();
    joined_gpus_.clear();
}

/// Decides the tensors that have waited for `rank` alone, which has joined.
void Coordinator::decide_waiting(int rank, std::vector<LogEntry>& entries) {
    std::vector<int> ids;
    for (const auto& [id, state] : sets_) {
        if (is_member(state.table, rank)) {
            ids.push_back(id);
        }
    }
    for (const int id : ids) {
        for (const auto& name : sets_.at(id).table.names()) {
            if (auto group = sets_.at(id).table.take_if_complete(name, joined_)) {
                decide(id, rank, *std::move(group), entries);
            }
        }
    }
}

// ---- decisions ----------------------------------------------------------------------------------

/// `last`: the rank that the others have waited for.
void Coordinator::decide(int set_id,
                         int last,
                         AnnouncedGroup group,
                         std::vector<LogEntry>& entries) {
    Decision decision;
    decision.process_set = set_id;
    decision.rank = last;
    decision.error = find_disagreement(group);
    if (decision.error) {
        for (std::size_t index = 0; index < group.ranks.size(); ++index) {
            for (auto& member : group.announcements[index].members) {
                decision.members.push_back(std::move(member));
                decision.announcers.push_back(group.ranks[index]);
            }
        }
        append(std::move(decision), entries);
        return;
    }
    const auto& table = sets_.at(set_id).table;
    for (const int rank : table.ranks()) {
        if (std::ranges::find(joined_, rank) != joined_.end()) {
            decision.joined.push_back(rank);
        }
    }
    decision.first_dims = first_dims_of(group);
    decision.devices = devices_of(group, table.ranks(), joined_gpus_);
    decision.members = std::move(group.announcements.front().members);
    if (!decision.joined.empty()) {
        decision.error = refusal_while_joined(decision);
    }
    if (!decision.error) {
        decision.error = refusal_without_gpu(decision, table.ranks());
    }
    if (!decision.error) {
        if (kind_of(decision) == Kind::collective) {
            decide_collective(set_id, decision, entries);
        } else {
            decide_membership(decision);
        }
    }
    append(std::move(decision), entries);
}

void Coordinator::decide_collective(int set_id,
                                    Decision& decision,
                                    std::vector<LogEntry>& entries) {
    if (!decision.joined.empty()) {
        return;  // until all have joined, agreement is by name
    }
    decision.awaits_memory = std::ranges::any_of(
        decision.members, [](const Member& member) { return has_open_size(member.signature); });
    give_id(set_id, decision, entries);
    decision.awaits_memory = decision.awaits_memory && decision.id != kNoId;
}

void Coordinator::decide_membership(Decision& decision) {
    const auto& signature = decision.members.front().signature;
    if (kind_of(decision) == Kind::remove_process_set) {
        const auto found = sets_.find(signature.root);
        if (found == sets_.end() || signature.root == 0) {
            decision.error =
                Error{Errc::invalid_argument,
                      "there is no process set " + std::to_string(signature.root) + " to remove"};
            return;
        }
        retire_all(found->second);
        sets_.erase(found);
        set_ids_.give_back(signature.root);
        decision.set_id = signature.root;
        return;
    }
    std::vector<int> ranks;
    for (const auto rank : signature.splits) {
        ranks.push_back(static_cast<int>(rank));
    }
    std::ranges::sort(ranks);
    for (const auto& [id, state] : sets_) {
        if (state.table.ranks() == ranks) {
            decision.set_id = id;
            decision.error =
                Error{Errc::invalid_argument,
                      "a process set with these ranks exists already: set " + std::to_string(id)};
            return;
        }
    }
    decision.set_id = set_ids_.take();
    sets_.emplace(decision.set_id, SetState(std::move(ranks)));
}

// ---- cache ids ----------------------------------------------------------------------------------

void Coordinator::give_id(int set_id, Decision& decision, std::vector<LogEntry>& entries) {
    auto& state = sets_.at(set_id);
    const auto name = group_name(decision.members);
    if (!pool_.is_off() && pool_.is_full()) {
        // An id whose ranks still allocate stays: groups that evict each other before they are
        // ready would be announced again for ever.
        const auto oldest = std::ranges::find_if(state.by_age, [&](const auto& each) {
            return !awaiting_.contains(state.cached.at(each.second).id);
        });
        if (oldest != state.by_age.end()) {
            retire(set_id, std::string(oldest->second), entries);
        }
    }
    const bool may_cache = !pool_.is_off() && !pool_.is_full();
    if (!may_cache && !decision.awaits_memory) {
        return;
    }
    decision.id = pool_.take();
    if (decision.id == kNoId) {
        return;
    }
    if (decision.awaits_memory) {
        awaiting_.insert(decision.id);
    }
    const auto since = pool_.entries();
    decision.is_transient = !may_cache;
    std::vector<std::string> members;
    for (const auto& member : decision.members) {
        members.push_back(member.name);
        state.cached_with.insert_or_assign(member.name, name);
    }
    state.cached.insert_or_assign(name, Cached{.id = decision.id,
                                               .since = since,
                                               .is_transient = !may_cache,
                                               .members = std::move(members)});
    if (may_cache) {
        state.by_age.emplace(since, name);
    } else {
        transient_.insert_or_assign(decision.id, Transient{.process_set = set_id, .group = name});
    }
}

void Coordinator::retire(int set_id, const std::string& group, std::vector<LogEntry>& entries) {
    auto& state = sets_.at(set_id);
    const auto found = state.cached.find(group);
    if (found == state.cached.end()) {
        return;
    }
    append(Invalidation{.process_set = set_id, .id = found->second.id}, entries);
    forget(state, group);
}

void Coordinator::forget(SetState& state, const std::string& group) {
    const auto found = state.cached.find(group);
    give_back(found->second.id);
    for (const auto& member : found->second.members) {
        state.cached_with.erase(member);
    }
    if (!found->second.is_transient) {
        state.by_age.erase(found->second.since);
    }
    state.cached.erase(found);
}

/// For entries by which all ranks forget the ids of the set.
void Coordinator::retire_all(SetState& state) {
    std::vector<CacheId> ids;
    for (const auto& [name, cached] : state.cached) {
        ids.push_back(cached.id);
    }
    std::ranges::sort(ids);
    for (const auto id : ids) {
        give_back(id);
    }
    state.cached.clear();
    state.cached_with.clear();
    state.by_age.clear();
}

void Coordinator::give_back(CacheId id) {
    transient_.erase(id);
    awaiting_.erase(id);
    pool_.retire(id);
}

void Coordinator::append(LogEntry entry, std::vector<LogEntry>& entries) {
    pool_.count_entry();
    entries.push_back(std::move(entry));
}

}  // namespace hvd::rt
