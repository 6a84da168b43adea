// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/negotiator.hpp"

#include "runtime/engine/coarse_clock.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace hvd::rt {
namespace {

constexpr int kCoordinator = 0;  // its rank

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
      on_set_ended_(std::move(setup.on_set_ended)),
      context_{.channel = channel_, .tickets = tickets_, .agreements = Agreements(tickets_)},
      world_(negotiation_of(sets_.world())),
      proposal_(context_, world_, setup.carries_payloads),
      join_(channel_, tickets_),
      departures_(sets_, channel_, std::move(setup.on_missed)) {
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

bool Negotiator::has_open() const noexcept {
    return !holding_.empty() || join_.is_open() || context_.open != 0;
}

// ---- what this rank submits ---------------------------------------------------------------------

void Negotiator::submit(std::span<Operation* const> leaders, Urgency urgency) {
    if (auto* const observer = tickets_.observer()) {
        observer->on(Moment::submitted, leaders, {});
    }
    if (may_propose(leaders, urgency) && proposal_.offer(leaders)) {
        return;
    }
    // Reading the clock itself would be noticed where a caller waits for a small operation.
    const bool is_timed = urgency == Urgency::background;
    const auto now = is_timed ? Deadline::Clock::now() : coarse_now();
    for (Operation* leader : leaders) {
        leader->since = now;
        leader->is_timed = is_timed;
        leader->last_rank = -1;
        if (leader->set->is_removed.load(std::memory_order_acquire)) {
            fail_group(tickets_, *leader, removed_error(leader->process_set));
        } else if (const auto left = departures_.cause_of(leader->process_set)) {
            fail_group(tickets_, *leader, departures_.miss(*leader, *left));
        } else if (join_.is_open()) {
            join_.hold(*leader);
        } else if (leader->signature.kind == Kind::join) {
            join_.begin(*leader);
        } else {
            negotiation_of(*leader->set).hold(*leader);
            holding_.insert(leader->process_set);
        }
    }
    (void)release_held();
}

/// Publishes what lanes have room for.
bool Negotiator::release_held() {
    return std::erase_if(holding_, [this](int id) {
               const auto found = negotiations_.find(id);
               if (found == negotiations_.end() || !found->second.has_held()) {
                   return true;
               }
               // A proposal cannot be taken back, and no other operation of the world may be
               // published beside it.
               const bool is_proposing = id == 0 && proposal_.is_waiting();
               if (is_proposing || !has_room_(found->second.set())) {
                   return false;
               }
               found->second.publish_held();
               return true;
           }) != 0;
}

// ---- proposals ----------------------------------------------------------------------------------

bool Negotiator::may_propose(std::span<Operation* const> leaders, Urgency urgency) const {
    return urgency == Urgency::awaited && !join_.is_open() && departures_.is_empty() &&
           has_room_(world_.set()) && proposal_.suits(leaders);
}

bool Negotiator::settle_proposal(std::vector<Operation*>& ready) {
    if (!proposal_.is_waiting() || !proposal_.settle(ready)) {
        return false;
    }
    // Inputs that have come along are read before this rank publishes anything.
    if (proposal_.inputs().empty()) {
        (void)release_held();
    }
    return true;
}

// ---- the loop -----------------------------------------------------------------------------------

Result<bool> Negotiator::step(std::vector<Operation*>& ready) {
    proposal_.forget_inputs();
    if (settle_proposal(ready)) {
        return true;
    }
    bool has_moved = channel_.flush();
    has_moved = release_held() || has_moved;
    // Once nothing that was submitted before it is open.
    if (join_.is_to_announce() && holding_.empty() && !proposal_.is_waiting() &&
        context_.open == 0) {
        join_.announce();
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
    // The cause of an entry has refused the proposal, or followed its acceptance.
    if (settle_proposal(ready) && !ready.empty()) {
        return true;  // a batch by itself
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
        on_left(std::get<event::Left>(event).rank);
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
        verdict_ = {.peer = decision.rank, .error = *decision.error, .in_flight = true};
        return ok();
    }
    const bool is_about_sets = !decision.error && kind_of(decision) != Kind::collective;
    if (departures_.cause_of(decision.process_set)) {
        // Decided before the coordinator had read of the end.
        if (is_about_sets) {
            on_membership(decision);
        }
        return ok();
    }
    auto& negotiation = negotiation_of(*entry);
    if (decision.error) {
        negotiation.on_error(decision);
    } else if (!is_about_sets) {
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
        // Else it was decided just now, and the ranks have allocated their results since.
        leader.last_rank = leader.last_rank < 0 ? batch.last_rank : leader.last_rank;
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
    if (world_.open() != 0 || join_.is_open()) {
        channel_.refuse_round();
    }
}

// ---- who takes part -----------------------------------------------------------------------------

Status Negotiator::on_joined(const Decision& decision) {
    for (const auto id : context_.agreements.ids_of([&](const coll::ProcessSet& set) {
             return std::ranges::find(set.ranks, decision.rank) != set.ranks.end();
         })) {
        invalidate(id);
    }
    if (!decision.ends_join) {
        return ok();
    }
    if (!departures_.is_empty()) {
        return ok();  // this rank's join has failed
    }
    if (!join_.is_open()) {
        return Error{Errc::internal, "all ranks have joined, but this one has not"};
    }
    join_.complete(decision.rank);
    end_round();
    submit(join_.take_held(), Urgency::background);
    return ok();
}

void Negotiator::on_membership(const Decision& decision) {
    if (kind_of(decision) == Kind::add_process_set) {
        channel_.add_set(sets_.add(decision.set_id, decision.members.front().signature.splits));
        if (!departures_.is_empty()) {
            departures_.end_new(decision.set_id);  // every request for it has failed
        }
        return;
    }
    // Operations that were agreed before finish; the others fail.
    const int id = decision.set_id;
    if (const auto found = negotiations_.find(id); found != negotiations_.end()) {
        found->second.fail_all([id](const Operation&) { return removed_error(id); });
        negotiations_.erase(found);
    }
    drop_agreements(id);
    channel_.remove_set(id);
    on_set_removed_(id);
    sets_.remove(id);
}

void Negotiator::drop_agreements(int set_id) {
    for (const auto each : context_.agreements.ids_of(
             [set_id](const coll::ProcessSet& set) { return set.id == set_id; })) {
        (void)context_.agreements.drop(each);
    }
}

// ---- ranks that leave ---------------------------------------------------------------------------

void Negotiator::on_left(int rank) {
    const auto ended = departures_.add(rank);
    const bool is_own = rank == departures_.own_rank();
    if (!departures_.has_live_set() || (is_own && !coordinator_)) {
        left_rank_ = rank;
        return;
    }
    const auto describe = [&](const Operation& leader) { return departures_.miss(leader, rank); };
    for (Operation* leader : proposal_.take()) {
        fail_group(tickets_, *leader, describe(*leader));
    }
    join_.fail(describe);
    for (const int id : ended) {
        if (const auto found = negotiations_.find(id); found != negotiations_.end()) {
            found->second.fail_all(describe);
        }
        drop_agreements(id);
        on_set_ended_(id, rank);
    }
    if (coordinator_) {
        coordinator_->on_left(rank);
    }
    // The departure of the rank that coordinates ends the other sets too.
    if (rank != kCoordinator) {
        channel_.forgive_departure(rank);
    }
    submit(join_.take_held(), Urgency::background);
}

// ---- stalls -------------------------------------------------------------------------------------

void Negotiator::list_waiting(std::vector<Waiting>& list) const {
    if (coordinator_) {
        for (auto& each : coordinator_->waiting()) {
            if (!each.missing.empty()) {
                list.push_back(std::move(each));
            }
        }
    }
    proposal_.list_waiting(list);
}

// ---- ends ---------------------------------------------------------------------------------------

void Negotiator::fail_open(const DescribeFailure& describe) {
    for (const auto& lost : {proposal_.take(), join_.take_held()}) {
        for (Operation* leader : lost) {
            fail_group(tickets_, *leader, describe(*leader));
        }
    }
    join_.fail(describe);
    for (auto& [id, negotiation] : negotiations_) {
        negotiation.fail_all(describe);
    }
    holding_.clear();
}

}  // namespace hvd::rt
