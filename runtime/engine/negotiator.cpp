// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/negotiator.hpp"

#include "runtime/engine/carried.hpp"
#include "runtime/engine/coarse_clock.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

namespace hvd::rt {
namespace {

bool is_on_host(const Operation& leader) noexcept {
    return leader.signature.device == coll::Device::Kind::host;
}

Error removed_error(int set) {
    return {Errc::aborted, "process set " + std::to_string(set) + " has been removed"};
}

}  // namespace

Negotiator::Negotiator(Setup setup)
    : channel_(setup.channel),
      tickets_(setup.tickets),
      sets_(setup.sets),
      fusion_bytes_(setup.fusion_bytes),
      has_room_(std::move(setup.has_room)),
      on_set_removed_(std::move(setup.on_set_removed)),
      context_{.channel = channel_, .tickets = tickets_, .agreements = Agreements(tickets_)},
      world_(negotiation_of(sets_.world())),
      payload_limit_(setup.carries_payloads ? channel_.payload_limit() : 0) {
    if (setup.coordinator) {
        coordinator_.emplace(channel_, tickets_, *std::move(setup.coordinator), sets_.world().set,
                             fusion_bytes_);
    }
}

Negotiator::~Negotiator() {
    auto& agreements = context_.agreements;
    for (const auto id : agreements.ids_of([](const coll::ProcessSet&) { return true; })) {
        (void)agreements.drop(id);
    }
}

SetNegotiation& Negotiator::negotiation_of(ProcessSetEntry& entry) {
    return negotiations_.try_emplace(entry.set.id, entry, context_).first->second;
}

bool Negotiator::has_published() const noexcept {
    return std::ranges::any_of(negotiations_,
                               [](const auto& each) { return each.second.open() != 0; });
}

bool Negotiator::has_open() const noexcept {
    return has_held_ || join_ != nullptr || has_published();
}

// ---- what this rank submits ---------------------------------------------------------------------

void Negotiator::submit(std::span<Operation* const> leaders, Urgency urgency) {
    if (auto* const observer = tickets_.observer()) {
        observer->on(Moment::submitted, leaders, {});
    }
    if (may_propose(leaders, urgency) && propose(leaders)) {
        return;
    }
    // Reading the clock itself would be noticed where a caller waits for a small operation.
    const bool is_timed = urgency == Urgency::background;
    const auto now = is_timed ? Deadline::Clock::now() : coarse_now();
    for (Operation* leader : leaders) {
        leader->since = now;
        leader->is_timed = is_timed;
        if (leader->set->is_removed.load(std::memory_order_acquire)) {
            fail_group(tickets_, *leader, removed_error(leader->process_set));
        } else if (join_ != nullptr) {
            after_join_.push_back(leader);
        } else if (leader->signature.kind == Kind::join) {
            join_ = leader;
        } else {
            negotiation_of(*leader->set).hold(*leader);
            has_held_ = true;
        }
    }
    (void)release_held();
}

/// Publishes what lanes have room for.
bool Negotiator::release_held() {
    if (!has_held_) {
        return false;
    }
    bool has_moved = false;
    has_held_ = false;
    for (auto& [id, negotiation] : negotiations_) {
        if (!negotiation.has_held()) {
            continue;
        }
        // A proposal cannot be taken back, and no other operation of the world may be published
        // beside it.
        const bool is_proposing = id == 0 && !proposed_.empty();
        if (is_proposing || !has_room_(negotiation.set())) {
            has_held_ = true;
        } else {
            negotiation.publish_held();
            has_moved = true;
        }
    }
    return has_moved;
}

// ---- proposals ----------------------------------------------------------------------------------

bool Negotiator::may_propose(std::span<Operation* const> leaders, Urgency urgency) {
    return urgency == Urgency::awaited && proposed_.empty() && join_ == nullptr &&
           world_.open() == 0 && !world_.has_held() && has_room_(world_.set()) &&
           std::ranges::all_of(leaders, [&](const Operation* leader) {
               return leader->process_set == 0 && leader->signature.kind == Kind::collective &&
                      is_on_host(*leader) && context_.agreements.has(*leader);
           });
}

bool Negotiator::propose(std::span<Operation* const> leaders) {
    for (Operation* leader : leaders) {
        if (!prepare_as_agreed(*leader, context_.agreements.of(*leader), world_.set()).empty()) {
            return false;
        }
    }
    for (Operation* leader : leaders) {
        leader->is_timed = false;
    }
    proposed_.assign(leaders.begin(), leaders.end());
    proposed_.front()->since = {};  // see note_time
    std::ranges::sort(proposed_, {},
                      [](const Operation* leader) { return leader->group->cache_id; });
    ids_.clear();
    for (const Operation* leader : proposed_) {
        ids_.push_back(leader->group->cache_id);
    }
    const Operation& first = *proposed_.front();
    has_payload_ = proposed_.size() == 1 && payload_limit_ != 0 &&
                   context_.agreements.of(first).carried_bytes <= payload_limit_;
    if (!channel_.propose(
            ids_, has_payload_ ? payload_of(first, world_.set()) : std::span<const std::byte>())) {
        proposed_.clear();
        return false;
    }
    world_.set_proposed(proposed_.size());
    return true;
}

bool Negotiator::settle_proposal(std::vector<Operation*>& ready) {
    const auto outcome = channel_.proposal();
    if (outcome == Proposal::waiting) {
        return false;
    }
    world_.set_proposed(0);
    settled_.swap(proposed_);  // both keep their memory for the next time
    proposed_.clear();
    if (outcome == Proposal::accepted) {
        inputs_ = has_payload_ ? channel_.payloads() : inputs_;
        for (Operation* leader : settled_) {
            context_.totals.by_bit += member_count(*leader);
            ready.push_back(leader);
        }
    } else {
        const auto now = coarse_now();
        for (Operation* leader : settled_) {
            leader->since = now;
        }
        world_.publish(settled_);
    }
    (void)release_held();
    return true;
}

// ---- the loop -----------------------------------------------------------------------------------

Result<bool> Negotiator::step(std::vector<Operation*>& ready) {
    inputs_ = {};
    if (!proposed_.empty() && settle_proposal(ready)) {
        return true;
    }
    bool has_moved = channel_.flush();
    has_moved = release_held() || has_moved;
    if (join_ != nullptr && !has_announced_join_) {
        announce_join();
    }
    if (coordinator_) {
        HVD_TRY(const bool has_coordinated, coordinator_->step());
        has_moved = has_moved || has_coordinated;
    }
    if (left_rank_) {
        return has_moved;
    }
    if (!unread_) {
        HVD_TRY(unread_, channel_.poll());
    }
    if (!unread_) {
        return has_moved;
    }
    if (!proposed_.empty()) {
        // The cause of an entry has refused the proposal, or followed its acceptance.
        (void)settle_proposal(ready);
        if (!ready.empty()) {
            return true;  // a batch by itself
        }
    }
    auto event = *std::exchange(unread_, std::nullopt);
    HVD_TRY_STATUS(handle(event, ready));
    return true;
}

Status Negotiator::handle(ChannelEvent& event, std::vector<Operation*>& ready) {
    if (const auto* decided = std::get_if<event::Decided>(&event)) {
        return on(*decided, ready);
    }
    if (const auto* invalidated = std::get_if<event::Invalidated>(&event)) {
        if (context_.agreements.find(invalidated->id) != nullptr) {
            invalidate(invalidated->id);
        }
    } else if (const auto* batch = std::get_if<event::Ready>(&event)) {
        on(*batch, ready);
    } else {
        left_rank_ = std::get<event::Left>(event).rank;
    }
    return ok();
}

// ---- entries of the log -------------------------------------------------------------------------

Status Negotiator::on(const event::Decided& decided, std::vector<Operation*>& ready) {
    context_.totals.names_bytes += decided.message.size();
    HVD_TRY(const auto decision, decode_decision(decided.message));
    fusion_bytes_ = decision.fusion_bytes;
    auto* const entry = sets_.find(decision.process_set);
    if (entry == nullptr) {
        return Error{Errc::internal, "a decision about process set " +
                                         std::to_string(decision.process_set) +
                                         ", which does not exist"};
    }
    if (kind_of(decision) == Kind::join) {
        return on_joined(decision);
    }
    if (decision.error && decision.ends_world) {
        stalled_ = {.peer = decision.rank, .error = *decision.error, .in_flight = true};
        return ok();
    }
    auto& negotiation = negotiation_of(*entry);
    if (decision.error) {
        negotiation.on_error(decision);
    } else if (kind_of(decision) == Kind::collective) {
        HVD_TRY_STATUS(negotiation.on_collective(decision));
    } else {
        on_membership(decision);
        negotiation.on_membership(decision);
    }
    if (!decided.more) {
        negotiation.end_decisions(ready);
        if (decision.process_set == 0) {
            end_round();
        }
    }
    return ok();
}

void Negotiator::on(const event::Ready& batch, std::vector<Operation*>& ready) {
    if (coordinator_) {
        coordinator_->on_ready(batch.ids);
    }
    for (const auto id : batch.ids) {
        // An id of another set, or one that was taken back just before it became ready: every rank
        // sees the same order and has announced the group again.
        auto* const agreement = context_.agreements.find(id);
        if (agreement == nullptr || agreement->waiting == nullptr) {
            continue;
        }
        Operation& leader = *std::exchange(agreement->waiting, nullptr);
        if (agreement->is_transient) {
            (void)context_.agreements.drop(id);
        } else {
            context_.totals.by_bit += member_count(leader);
        }
        negotiation_of(*leader.set).on_ready(leader, ready);
    }
    if (batch.of_world) {
        end_round();
    }
}

void Negotiator::invalidate(CacheId id) {
    auto& entry = *context_.agreements.find(id)->set;
    if (Operation* const waiting = context_.agreements.drop(id)) {
        negotiation_of(entry).on_invalidated(*waiting);
    }
}

void Negotiator::end_round() {
    channel_.next_round();
    if (world_.open() != 0 || join_ != nullptr) {
        channel_.refuse_round();
    }
}

// ---- who takes part -----------------------------------------------------------------------------

/// Once nothing that this rank has submitted is open.
void Negotiator::announce_join() {
    if (has_held_ || !proposed_.empty() || has_published()) {
        return;
    }
    has_announced_join_ = true;
    const Announcement announcement{
        .process_set = 0,
        .members = {{.name = join_->name->text, .signature = join_->signature}},
        .failure = {}};
    channel_.refuse_round();
    channel_.announce(encode(announcement));
}

Status Negotiator::on_joined(const Decision& decision) {
    for (const auto id : context_.agreements.ids_of([&](const coll::ProcessSet& set) {
             return std::ranges::find(set.ranks, decision.rank) != set.ranks.end();
         })) {
        invalidate(id);
    }
    if (!decision.ends_join) {
        return ok();
    }
    if (join_ == nullptr) {
        return Error{Errc::internal, "all ranks have joined, but this one has not"};
    }
    Operation& join = *std::exchange(join_, nullptr);
    has_announced_join_ = false;
    const std::int32_t last = decision.rank;
    join.owned = allocate_aligned(sizeof last);
    std::memcpy(join.owned.get(), &last, sizeof last);
    join.out = join.owned.get();
    join.result_shape.clear();
    tickets_.complete(join);
    end_round();
    submit(std::exchange(after_join_, {}), Urgency::background);
    return ok();
}

void Negotiator::on_membership(const Decision& decision) {
    if (kind_of(decision) == Kind::add_process_set) {
        channel_.add_set(sets_.add(decision.set_id, decision.members.front().signature.splits));
        return;
    }
    // Operations that were agreed before finish; the others fail.
    const int id = decision.set_id;
    if (const auto found = negotiations_.find(id); found != negotiations_.end()) {
        found->second.fail_all([id](const Operation&) { return removed_error(id); });
        negotiations_.erase(found);
    }
    for (const auto each :
         context_.agreements.ids_of([id](const coll::ProcessSet& set) { return set.id == id; })) {
        (void)context_.agreements.drop(each);
    }
    channel_.remove_set(id);
    on_set_removed_(id);
    sets_.remove(id);
}

// ---- stalls -------------------------------------------------------------------------------------

void Negotiator::note_time(Waiting::TimePoint now) {
    if (!proposed_.empty() && proposed_.front()->since == Waiting::TimePoint{}) {
        for (Operation* leader : proposed_) {
            leader->since = now;
        }
    }
}

void Negotiator::list_waiting(std::vector<Waiting>& list) const {
    if (coordinator_) {
        for (auto& each : coordinator_->waiting()) {
            if (!each.missing.empty()) {
                list.push_back(std::move(each));
            }
        }
    }
    const auto missing = proposed_.empty() ? std::vector<int>{} : channel_.missing_in_round();
    if (missing.empty()) {
        return;
    }
    std::vector<int> waiting;
    std::ranges::set_difference(sets_.world().set.ranks, missing, std::back_inserter(waiting));
    for (const Operation* leader : proposed_) {
        list.push_back({.stage = Waiting::Stage::proposal,
                        .process_set = 0,
                        .name = leader->name->text,
                        .waiting = waiting,
                        .missing = missing,
                        .since = leader->since});
    }
}

Negotiator::Asked Negotiator::ask_for_names(Waiting::TimePoint before) {
    Asked asked;
    context_.agreements.for_each_waiting([&](Agreement& agreement) {
        if (agreement.has_asked) {
            return;
        }
        const Operation& leader = *agreement.waiting;
        if (leader.since > before) {
            asked.oldest = std::min(asked.oldest.value_or(leader.since), leader.since);
            return;
        }
        agreement.has_asked = true;
        asked.has_asked = true;
        Announcement announcement{.process_set = leader.process_set, .members = {}};
        announcement.asks_for_names = true;
        for_each_member(leader, [&](const Operation& member) {
            announcement.members.push_back({member.name->text, member.signature});
        });
        channel_.announce(encode(announcement));
    });
    return asked;
}

// ---- ends ---------------------------------------------------------------------------------------

void Negotiator::fail_open(const DescribeFailure& describe) {
    std::vector<Operation*> lost = std::exchange(proposed_, {});
    lost.insert(lost.end(), after_join_.begin(), after_join_.end());
    after_join_.clear();
    if (join_ != nullptr) {
        lost.push_back(std::exchange(join_, nullptr));
    }
    for (auto& [id, negotiation] : negotiations_) {
        negotiation.fail_all(describe);
    }
    has_held_ = false;
    for (Operation* leader : lost) {
        fail_group(tickets_, *leader, describe(*leader));
    }
}

}  // namespace hvd::rt
