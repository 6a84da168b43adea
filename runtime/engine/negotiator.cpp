// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/negotiator.hpp"

#include "runtime/engine/coarse_clock.hpp"
#include "runtime/tensor/neutral.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

namespace hvd::rt {
namespace {

std::size_t member_count(const Operation& leader) noexcept {
    std::size_t count = 0;
    for_each_member(leader, [&](const Operation&) { ++count; });
    return count;
}

/// Whether a result's size is known only when all ranks have announced their tensors.
bool has_open_sizes(const Operation& leader) noexcept {
    bool is_open = false;
    for_each_member(leader, [&](const Operation& member) {
        is_open = is_open || has_open_size(member.signature);
    });
    return is_open;
}

bool is_on_host(const Operation& leader) noexcept {
    return leader.signature.device == coll::Device::Kind::host;
}

int divisor_of(const Decision& decision, const Signature& signature, const coll::ProcessSet& set) {
    return signature.over_contributing ? set.size() - static_cast<int>(decision.joined.size()) : 0;
}

/// What the decision says about how the group runs. Errors: internal where it does not fit.
Status take_terms(Operation& leader, const Decision& decision, const coll::ProcessSet& set) {
    const auto size = static_cast<std::size_t>(set.size());
    std::size_t index = 0;
    for (Operation* member = &leader; member != nullptr; member = member->next, ++index) {
        std::size_t expected = 0;
        if (has_open_size(member->signature)) {
            expected = member->signature.op == coll::Op::alltoall ? size * size : size;
        }
        if (index >= decision.first_dims.size() || decision.first_dims[index].size() != expected) {
            return Error{Errc::internal,
                         "a decision about '" + leader.name->text + "' does not fit its tensors"};
        }
        member->first_dims = decision.first_dims[index];
        member->divisor = divisor_of(decision, member->signature, set);
    }
    return ok();
}

}  // namespace

Negotiator::Negotiator(Setup setup)
    : channel_(setup.channel),
      tickets_(setup.tickets),
      sets_(setup.sets),
      fusion_bytes_(setup.fusion_bytes),
      has_room_(std::move(setup.has_room)),
      on_set_removed_(std::move(setup.on_set_removed)),
      agreements_(setup.tickets),
      world_(&states_[0]) {
    world_->entry = &sets_.world();
    if (setup.coordinator) {
        coordinator_.emplace(channel_, *std::move(setup.coordinator), sets_.world().set,
                             fusion_bytes_);
    }
}

Negotiator::~Negotiator() {
    for (const auto id : agreements_.ids_of([](const coll::ProcessSet&) { return true; })) {
        (void)agreements_.drop(id);
    }
}

bool Negotiator::has_open() const noexcept {
    return has_held_ || join_ != nullptr ||
           std::ranges::any_of(states_, [](const auto& each) { return each.second.open != 0; });
}

// ---- what this rank submits ---------------------------------------------------------------------

void Negotiator::submit(std::span<Operation* const> leaders, Urgency urgency) {
    if (may_propose(leaders, urgency) && propose(leaders)) {
        return;
    }
    const auto now = coarse_now();
    for (Operation* leader : leaders) {
        leader->since = now;
        if (join_ != nullptr) {
            after_join_.push_back(leader);
        } else if (leader->signature.kind == Kind::join) {
            join_ = leader;
        } else {
            hold(*leader);
        }
    }
    (void)release_held();
}

void Negotiator::hold(Operation& leader) {
    states_[leader.process_set].entry = leader.set;
    states_[leader.process_set].held.push_back(&leader);
    has_held_ = true;
}

/// Publishes what lanes have room for.
bool Negotiator::release_held() {
    if (!has_held_) {
        return false;
    }
    bool has_moved = false;
    has_held_ = false;
    for (auto& [id, state] : states_) {
        if (state.held.empty()) {
            continue;
        }
        // A proposal cannot be taken back, and nothing else of the world may be published beside
        // it.
        const bool is_proposing = id == 0 && !proposed_.empty();
        if (is_proposing || !has_room_(state.entry->set)) {
            has_held_ = true;
            continue;
        }
        const auto held = std::exchange(state.held, {});
        publish(state, held);
        has_moved = true;
    }
    return has_moved;
}

void Negotiator::publish(SetState& state, std::span<Operation* const> leaders) {
    std::vector<Operation*> agreed;
    for (Operation* leader : leaders) {
        ++state.open;
        if (!agreements_.has(*leader)) {
            // What comes of others' tensors is allocated when these are known.
            const bool waits = has_open_sizes(*leader);
            announce(state, *leader, waits ? "" : allocate_outputs(*leader, state.entry->set));
            continue;
        }
        std::size_t index = 0;
        for_each_member(*leader, [&](Operation& member) {
            member.first_dims = agreements_.of(*leader).first_dims[index++];
            member.divisor = 0;
        });
        if (auto failure = allocate_outputs(*leader, state.entry->set); failure.empty()) {
            agreed.push_back(leader);
        } else {
            announce(state, *leader, std::move(failure));
        }
    }
    if (!agreed.empty()) {
        set_ready(state, agreed);
    }
}

void Negotiator::set_ready(SetState& state, std::span<Operation* const> leaders) {
    ids_.clear();
    for (Operation* leader : leaders) {
        agreements_.of(*leader).waiting = leader;
        agreements_.of(*leader).has_asked = false;
        ids_.push_back(leader->group->cache_id);
    }
    const bool all_ready = channel_.set_ready(ids_, state.entry->set);
    if (&state == world_ && (!all_ready || state.open > leaders.size())) {
        channel_.refuse_round();
    }
}

void Negotiator::announce(SetState& state, Operation& leader, std::string failure) {
    Announcement announcement{
        .process_set = leader.process_set, .members = {}, .failure = std::move(failure)};
    // In the usual case it has been submitted just now.
    announcement.waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(coarse_now() - leader.since);
    for_each_member(leader, [&](const Operation& member) {
        announcement.members.push_back({member.name->text, member.signature});
        state.announced[member.name->text] = &leader;
    });
    if (&state == world_) {
        channel_.refuse_round();
    }
    auto message = encode(announcement);
    totals_.names_bytes += message.size();
    channel_.announce(std::move(message));
}

/// Undoes `announce` on this rank.
void Negotiator::withdraw(SetState& state, Operation& leader) {
    for_each_member(leader,
                    [&](const Operation& member) { state.announced.erase(member.name->text); });
}

// ---- proposals ----------------------------------------------------------------------------------

bool Negotiator::may_propose(std::span<Operation* const> leaders, Urgency urgency) {
    return urgency == Urgency::awaited && proposed_.empty() && join_ == nullptr &&
           world().open == 0 && world().held.empty() && has_room_(world().entry->set) &&
           std::ranges::all_of(leaders, [&](const Operation* leader) {
               return leader->process_set == 0 && leader->signature.kind == Kind::collective &&
                      is_on_host(*leader) && agreements_.has(*leader);
           });
}

bool Negotiator::propose(std::span<Operation* const> leaders) {
    for (Operation* leader : leaders) {
        std::size_t index = 0;
        for_each_member(*leader, [&](Operation& member) {
            member.first_dims = agreements_.of(*leader).first_dims[index++];
            member.divisor = 0;
        });
        if (!allocate_outputs(*leader, world().entry->set).empty()) {
            return false;
        }
    }
    proposed_.assign(leaders.begin(), leaders.end());
    proposed_.front()->since = {};  // see note_time
    std::ranges::sort(proposed_, {},
                      [](const Operation* leader) { return leader->group->cache_id; });
    ids_.clear();
    for (const Operation* leader : proposed_) {
        ids_.push_back(leader->group->cache_id);
    }
    if (!channel_.propose(ids_)) {
        proposed_.clear();
        return false;
    }
    world().open = proposed_.size();
    return true;
}

Result<bool> Negotiator::settle_proposal(std::vector<Operation*>& ready) {
    const auto outcome = channel_.proposal();
    if (outcome == Proposal::waiting) {
        return false;
    }
    world().open = 0;
    const auto proposed = std::exchange(proposed_, {});
    if (outcome == Proposal::accepted) {
        for (Operation* leader : proposed) {
            totals_.by_bit += member_count(*leader);
            ready.push_back(leader);
        }
    } else {
        const auto now = coarse_now();
        for (Operation* leader : proposed) {
            leader->since = now;
        }
        publish(world(), proposed);
    }
    (void)release_held();
    return true;
}

// ---- the loop -----------------------------------------------------------------------------------

Result<bool> Negotiator::step(std::vector<Operation*>& ready) {
    if (!proposed_.empty()) {
        HVD_TRY(const bool is_settled, settle_proposal(ready));
        if (is_settled) {
            return true;
        }
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
        HVD_TRY_STATUS(settle_proposal(ready));
        if (!ready.empty()) {
            return true;  // a batch by itself
        }
    }
    auto event = *std::exchange(unread_, std::nullopt);
    HVD_TRY_STATUS(handle(event, ready));
    return true;
}

Status Negotiator::handle(ChannelEvent& event, std::vector<Operation*>& ready) {
    if (auto* decided = std::get_if<event::Decided>(&event)) {
        return on(*decided, ready);
    }
    if (const auto* invalidated = std::get_if<event::Invalidated>(&event)) {
        on(*invalidated);
    } else if (const auto* batch = std::get_if<event::Ready>(&event)) {
        on(*batch, ready);
    } else {
        left_rank_ = std::get<event::Left>(event).rank;
    }
    return ok();
}

// ---- entries of the log -------------------------------------------------------------------------

Status Negotiator::on(event::Decided& decided, std::vector<Operation*>& ready) {
    totals_.names_bytes += decided.message.size();
    HVD_TRY(const auto decision, decode_decision(decided.message));
    fusion_bytes_ = decision.fusion_bytes;
    auto& state = states_[decision.process_set];
    state.entry = sets_.find(decision.process_set);
    if (state.entry == nullptr) {
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
    if (decision.error) {
        on_error(state, decision);
    } else if (kind_of(decision) == Kind::collective) {
        HVD_TRY_STATUS(on_collective(state, decision));
    } else {
        on_membership(state, decision);
    }
    if (!decided.more) {
        end_decisions(state, ready);
    }
    return ok();
}

/// All groups around the names fail, as this rank has them.
void Negotiator::on_error(SetState& state, const Decision& decision) {
    for (const auto& member : decision.members) {
        const auto found = state.announced.find(member.name);
        if (found == state.announced.end()) {
            continue;
        }
        Operation& leader = *found->second;
        if (leader.signature.kind == Kind::add_process_set) {
            leader.signature.root = decision.set_id;  // of the equal set, where there is one
        }
        withdraw(state, leader);
        --state.open;
        fail(leader, *decision.error);
    }
}

Status Negotiator::on_collective(SetState& state, const Decision& decision) {
    const auto found = state.announced.find(decision.members.front().name);
    const auto& set = state.entry->set;
    if (found == state.announced.end()) {
        const int rank = set.rank_at(set.place);
        if (std::ranges::find(decision.joined, rank) == decision.joined.end()) {
            return Error{Errc::internal, "a decision about '" + decision.members.front().name +
                                             "' was not asked for"};
        }
        state.decided.push_back(&make_neutral(state, decision));
        return ok();
    }
    Operation& leader = *found->second;
    withdraw(state, leader);
    totals_.by_name += member_count(leader);
    HVD_TRY_STATUS(take_terms(leader, decision, set));
    if (decision.id != kNoId) {
        (void)agreements_.add(decision, leader);
    }
    if (!has_open_sizes(leader)) {
        state.decided.push_back(&leader);
        return ok();
    }
    auto failure = allocate_outputs(leader, set);
    if (!decision.awaits_memory && !failure.empty()) {
        return Error{Errc::internal, "tensor '" + leader.name->text + "': " + failure};
    }
    if (failure.empty()) {
        (decision.awaits_memory ? state.allocated : state.decided).push_back(&leader);
    } else {
        announce(state, leader, std::move(failure));
    }
    return ok();
}

/// Ends a chain of decisions: what came together is ready together.
void Negotiator::end_decisions(SetState& state, std::vector<Operation*>& ready) {
    for (Operation* leader : std::exchange(state.decided, {})) {
        state.open -= leader->is_neutral ? 0 : 1;
        ready.push_back(leader);
    }
    if (const auto allocated = std::exchange(state.allocated, {}); !allocated.empty()) {
        set_ready(state, allocated);
    }
    if (&state == world_) {
        end_round();
    }
}

void Negotiator::on(const event::Invalidated& invalidated) {
    if (agreements_.find(invalidated.id) != nullptr) {
        invalidate(invalidated.id);
    }
}

void Negotiator::invalidate(CacheId id) {
    auto& state = states_[agreements_.find(id)->set->set.id];
    Operation* const waiting = agreements_.drop(id);
    if (waiting != nullptr) {
        announce(state, *waiting, "");
    }
}

void Negotiator::on(const event::Ready& batch, std::vector<Operation*>& ready) {
    if (coordinator_) {
        coordinator_->on_ready(batch.ids);
    }
    for (const auto id : batch.ids) {
        // An id of another set, or one that was taken back just before it became ready: every rank
        // sees the same order and has announced the group again.
        auto* const agreement = agreements_.find(id);
        if (agreement == nullptr || agreement->waiting == nullptr) {
            continue;
        }
        Operation& leader = *std::exchange(agreement->waiting, nullptr);
        if (agreement->is_transient) {
            (void)agreements_.drop(id);
        } else {
            totals_.by_bit += member_count(leader);
        }
        --states_[leader.process_set].open;
        ready.push_back(&leader);
    }
    if (batch.of_world) {
        end_round();
    }
}

void Negotiator::end_round() {
    channel_.next_round();
    if (world().open != 0 || join_ != nullptr) {
        channel_.refuse_round();
    }
}

// ---- who takes part -----------------------------------------------------------------------------

/// Once nothing that this rank has submitted is open.
void Negotiator::announce_join() {
    if (has_held_ || !proposed_.empty() ||
        std::ranges::any_of(states_, [](const auto& each) { return each.second.open != 0; })) {
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
    for (const auto id : agreements_.ids_of([&](const coll::ProcessSet& set) {
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

Operation& Negotiator::make_neutral(SetState& state, const Decision& decision) {
    Operation* leader = nullptr;
    Operation* last = nullptr;
    for (const auto& member : decision.members) {
        Operation& operation = tickets_.create_neutral(member.signature, *state.entry);
        fill_neutral(member.signature.reduce, member.signature.type,
                     {operation.owned.get(), byte_count(member.signature)});
        if (leader == nullptr) {
            leader = &operation;
        } else {
            operation.leader = leader;
            last->next = &operation;
        }
        last = &operation;
        operation.result_shape = member.signature.shape;
        operation.divisor = divisor_of(decision, member.signature, state.entry->set);
    }
    return *leader;
}

void Negotiator::on_membership(SetState& state, const Decision& decision) {
    if (kind_of(decision) == Kind::add_process_set) {
        channel_.add_set(sets_.add(decision.set_id, decision.members.front().signature.splits));
    } else {
        remove_set(decision.set_id);
    }
    const auto found = state.announced.find(decision.members.front().name);
    if (found != state.announced.end()) {
        Operation& leader = *found->second;
        withdraw(state, leader);
        --state.open;
        leader.signature.root = decision.set_id;
        tickets_.complete(leader);
    }
}

/// What was agreed before finishes; what was not fails.
void Negotiator::remove_set(int id) {
    if (const auto found = states_.find(id); found != states_.end()) {
        fail_set(found->second, [id](const Operation&) {
            return Error{Errc::aborted, "process set " + std::to_string(id) + " has been removed"};
        });
        states_.erase(id);
    }
    for (const auto each :
         agreements_.ids_of([id](const coll::ProcessSet& set) { return set.id == id; })) {
        (void)agreements_.drop(each);
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
    agreements_.for_each_waiting([&](Agreement& agreement) {
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

void Negotiator::fail(Operation& leader, const Error& cause) {
    for_each_member(leader, [&](Operation& member) {
        member.failed = true;
        member.error = cause;
        tickets_.complete(member);
    });
}

void Negotiator::fail_set(SetState& state, const Describe& describe) {
    std::vector<Operation*> lost = std::exchange(state.held, {});
    for (const auto& [name, leader] : state.announced) {
        if (leader->name->text == name) {  // once for a group
            lost.push_back(leader);
        }
    }
    state.announced.clear();
    for (auto* list : {&state.decided, &state.allocated}) {
        lost.insert(lost.end(), list->begin(), list->end());
        list->clear();
    }
    const int id = state.entry == nullptr ? 0 : state.entry->set.id;
    for (const auto each :
         agreements_.ids_of([id](const coll::ProcessSet& set) { return set.id == id; })) {
        if (Operation* const waiting = std::exchange(agreements_.find(each)->waiting, nullptr)) {
            lost.push_back(waiting);
        }
    }
    state.open = 0;
    for (Operation* leader : lost) {
        fail(*leader, leader->is_neutral ? Error{} : describe(*leader));
    }
}

void Negotiator::fail_open(const Describe& describe) {
    std::vector<Operation*> lost = std::exchange(proposed_, {});
    lost.insert(lost.end(), after_join_.begin(), after_join_.end());
    after_join_.clear();
    if (join_ != nullptr) {
        lost.push_back(std::exchange(join_, nullptr));
    }
    for (auto& [id, state] : states_) {
        fail_set(state, describe);
    }
    has_held_ = false;
    for (Operation* leader : lost) {
        fail(*leader, describe(*leader));
    }
}

}  // namespace hvd::rt
