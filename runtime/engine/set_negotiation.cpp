// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/set_negotiation.hpp"

#include "runtime/engine/coarse_clock.hpp"
#include "runtime/tensor/neutral.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace hvd::rt {
namespace {

/// Whether a result's size is known only when all ranks have announced their tensors.
bool has_open_sizes(const Operation& leader) noexcept {
    bool is_open = false;
    for_each_member(leader, [&](const Operation& member) {
        is_open = is_open || has_open_size(member.signature);
    });
    return is_open;
}

int divisor_of(const Decision& decision, const Signature& signature, const coll::ProcessSet& set) {
    return signature.over_contributing ? set.size() - static_cast<int>(decision.joined.size()) : 0;
}

Error misfit(const std::string& name) {
    return {Errc::internal, "a decision about '" + name + "' does not fit its tensors"};
}

/// The devices that were decided for the tensor at `index` of a group. Errors: internal where they
/// do not fit.
Result<const DeviceList*> devices_of(const Decision& decision,
                                     std::size_t index,
                                     const coll::ProcessSet& set,
                                     DeviceLists& lists) {
    const auto& member = decision.members[index];
    if (member.signature.device.is_host()) {
        return static_cast<const DeviceList*>(nullptr);
    }
    if (index >= decision.devices.size() ||
        decision.devices[index].size() != static_cast<std::size_t>(set.size())) {
        return misfit(member.name);
    }
    return lists.find(decision.devices[index]);
}

}  // namespace

std::size_t member_count(const Operation& leader) noexcept {
    std::size_t count = 0;
    for_each_member(leader, [&](const Operation&) { ++count; });
    return count;
}

void fail_group(TicketTable& tickets, Operation& leader, const Error& cause) {
    for_each_member(leader, [&](Operation& member) {
        member.failed = true;
        member.error = cause;
        tickets.complete(member);
    });
}

std::string prepare_as_agreed(Operation& leader,
                              const Agreement& agreement,
                              const coll::ProcessSet& set) {
    if (is_ready(leader, agreement)) {
        return {};
    }
    std::size_t index = 0;
    for_each_member(leader, [&](Operation& member) {
        const auto& agreed = agreement.tensors[index];
        if (!agreed.first_dims.empty()) {
            member.first_dims = agreed.first_dims;
        }
        member.devices = agreed.devices;
        member.divisor = 0;
        ++index;
    });
    auto failure = allocate_outputs(leader, set);
    leader.agreement = failure.empty() ? agreement.number : 0;
    return failure;
}

// ---- what this rank publishes -------------------------------------------------------------------

void SetNegotiation::publish_held() {
    const auto held = std::exchange(held_, {});
    publish(held);
}

void SetNegotiation::publish(std::span<Operation* const> leaders) {
    std::vector<Operation*> agreed;
    for (Operation* leader : leaders) {
        set_open(open_ + 1);
        std::string failure;
        if (context_.agreements.has(*leader)) {
            failure = prepare_as_agreed(*leader, context_.agreements.of(*leader), set());
            if (failure.empty()) {
                agreed.push_back(leader);
                continue;
            }
        } else if (!has_open_sizes(*leader)) {  // the others are allocated once decided
            failure = allocate_outputs(*leader, set());
        }
        announce(*leader, std::move(failure));
    }
    if (!agreed.empty()) {
        set_ready(agreed);
    }
}

void SetNegotiation::set_ready(std::span<Operation* const> leaders) {
    std::vector<CacheId> ids;
    ids.reserve(leaders.size());
    for (Operation* leader : leaders) {
        auto& agreement = context_.agreements.of(*leader);
        agreement.waiting = leader;
        agreement.has_asked = false;
        ids.push_back(leader->group->cache_id);
    }
    const bool all_ready = context_.channel.set_ready(ids, set());
    if (is_world() && (!all_ready || open_ > leaders.size())) {
        context_.channel.refuse_round();
    }
}

void SetNegotiation::announce(Operation& leader, std::string failure) {
    Announcement announcement{
        .process_set = leader.process_set, .members = {}, .failure = std::move(failure)};
    // In the usual case it has been submitted just now.
    announcement.waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(coarse_now() - leader.since);
    for_each_member(leader, [&](const Operation& member) {
        announcement.members.push_back({member.name->text, member.signature});
        announced_[member.name->text] = &leader;
    });
    if (is_world()) {
        context_.channel.refuse_round();
    }
    auto message = encode(announcement);
    context_.totals.names_bytes += message.size();
    context_.channel.announce(std::move(message));
}

/// Undoes `announce` on this rank.
void SetNegotiation::withdraw(Operation& leader) {
    for_each_member(leader, [&](const Operation& member) { announced_.erase(member.name->text); });
}

Operation* SetNegotiation::find_announced(const std::string& name) const {
    const auto found = announced_.find(name);
    return found == announced_.end() ? nullptr : found->second;
}

// ---- decisions ----------------------------------------------------------------------------------

void SetNegotiation::on_error(const Decision& decision) {
    const int rank = set().rank_at(set().place);
    for (std::size_t index = 0; index < decision.members.size(); ++index) {
        // A tensor that this rank has announced meanwhile, with a name that only other ranks'
        // announcements in this decision have, gets its own decision.
        const bool is_own = decision.announcers.empty() || decision.announcers[index] == rank;
        Operation* const leader = find_announced(decision.members[index].name);
        if (leader == nullptr || !is_own) {
            continue;
        }
        if (leader->signature.kind == Kind::add_process_set) {
            leader->signature.root = decision.set_id;  // of the equal set, where there is one
        }
        withdraw(*leader);
        set_open(open_ - 1);
        fail_group(context_.tickets, *leader, *decision.error);
    }
}

Status SetNegotiation::on_collective(const Decision& decision) {
    Operation* const announced = find_announced(decision.members.front().name);
    if (announced == nullptr) {
        HVD_TRY(auto* const neutral, make_neutral(decision));
        decided_.push_back(neutral);
        return ok();
    }
    Operation& leader = *announced;
    withdraw(leader);
    leader.last_rank = decision.rank;
    context_.totals.by_name += member_count(leader);
    HVD_TRY_STATUS(take_terms(leader, decision));
    if (decision.id != kNoId) {
        (void)context_.agreements.add(decision, leader);
    }
    if (!has_open_sizes(leader)) {
        decided_.push_back(&leader);
        return ok();
    }
    auto failure = allocate_outputs(leader, set());
    if (!decision.awaits_memory && !failure.empty()) {
        return Error{Errc::internal, "tensor '" + leader.name->text + "': " + failure};
    }
    if (failure.empty()) {
        (decision.awaits_memory ? allocated_ : decided_).push_back(&leader);
    } else {
        announce(leader, std::move(failure));
    }
    return ok();
}

/// Takes over how the group runs, as decided. Errors: internal where it does not fit.
Status SetNegotiation::take_terms(Operation& leader, const Decision& decision) {
    const auto size = static_cast<std::size_t>(set().size());
    leader.agreement = 0;
    std::size_t index = 0;
    for (Operation* member = &leader; member != nullptr; member = member->next, ++index) {
        std::size_t expected = 0;
        if (has_open_size(member->signature)) {
            expected = member->signature.op == coll::Op::alltoall ? size * size : size;
        }
        if (index >= decision.members.size() || index >= decision.first_dims.size() ||
            decision.first_dims[index].size() != expected) {
            return misfit(leader.name->text);
        }
        HVD_TRY(member->devices, devices_of(decision, index, set(), context_.device_lists));
        if (member->devices != nullptr && member->devices->at(static_cast<std::size_t>(
                                              set().place)) != member->signature.device.index) {
            return misfit(leader.name->text);
        }
        member->first_dims = decision.first_dims[index];
        member->divisor = divisor_of(decision, member->signature, set());
    }
    return ok();
}

/// How a rank that has joined takes part in what the others do.
Result<Operation*> SetNegotiation::make_neutral(const Decision& decision) {
    const int rank = set().rank_at(set().place);
    if (std::ranges::find(decision.joined, rank) == decision.joined.end()) {
        return Error{Errc::internal,
                     "a decision about '" + decision.members.front().name + "' was not asked for"};
    }
    Operation* leader = nullptr;
    Operation* last = nullptr;
    for (std::size_t index = 0; index < decision.members.size(); ++index) {
        const auto& member = decision.members[index];
        HVD_TRY(const auto* const devices,
                devices_of(decision, index, set(), context_.device_lists));
        Operation& operation = context_.tickets.create_neutral(member.signature, entry_);
        operation.devices = devices;
        fill_neutral(member.signature.reduce, member.signature.type,
                     {operation.owned.get(), byte_count(member.signature)});
        context_.tickets.move_neutral(operation);
        operation.divisor = divisor_of(decision, member.signature, set());
        if (leader == nullptr) {
            leader = &operation;
        } else {
            operation.leader = leader;
            last->next = &operation;
        }
        last = &operation;
    }
    return leader;
}

void SetNegotiation::on_membership(const Decision& decision) {
    Operation* const leader = find_announced(decision.members.front().name);
    if (leader != nullptr) {
        withdraw(*leader);
        set_open(open_ - 1);
        leader->signature.root = decision.set_id;
        context_.tickets.complete(*leader);
    }
}

void SetNegotiation::end_decisions(std::vector<Operation*>& ready) {
    for (Operation* leader : std::exchange(decided_, {})) {
        set_open(open_ - (leader->is_neutral ? 0 : 1));
        ready.push_back(leader);
    }
    std::vector<Operation*> agreed;
    std::vector<Operation*> again;  // a later entry of the same chain has ended their id
    for (Operation* leader : std::exchange(allocated_, {})) {
        (context_.agreements.has(*leader) ? agreed : again).push_back(leader);
    }
    if (!agreed.empty()) {
        set_ready(agreed);
    }
    // After the ready bits, so that their ids are not evicted in turn before they count.
    for (Operation* leader : again) {
        announce(*leader, "");
    }
}

// ---- ends ---------------------------------------------------------------------------------------

void SetNegotiation::fail_all(const DescribeFailure& describe) {
    std::vector<Operation*> lost = std::exchange(held_, {});
    for (const auto& [name, leader] : announced_) {
        if (leader->name->text == name) {  // once for a group
            lost.push_back(leader);
        }
    }
    announced_.clear();
    for (auto* list : {&decided_, &allocated_}) {
        lost.insert(lost.end(), list->begin(), list->end());
        list->clear();
    }
    for (const auto id : context_.agreements.ids_of(
             [&](const coll::ProcessSet& each) { return each.id == set().id; })) {
        if (auto* const waiting = std::exchange(context_.agreements.find(id)->waiting, nullptr)) {
            lost.push_back(waiting);
        }
    }
    set_open(0);
    for (Operation* leader : lost) {
        fail_group(context_.tickets, *leader, leader->is_neutral ? Error{} : describe(*leader));
    }
}

}  // namespace hvd::rt
