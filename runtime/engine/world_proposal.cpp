// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/world_proposal.hpp"

#include "runtime/engine/carried.hpp"
#include "runtime/engine/coarse_clock.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd::rt {
namespace {

bool is_on_host(const Operation& leader) noexcept {
    return leader.signature.device.is_host();
}

}  // namespace

WorldProposal::WorldProposal(NegotiationContext& context,
                             SetNegotiation& world,
                             bool carries_payloads)
    : context_(context),
      world_(world),
      payload_limit_(carries_payloads ? context.channel.payload_limit() : 0) {}

bool WorldProposal::suits(std::span<Operation* const> leaders) const {
    return proposed_.empty() && world_.open() == 0 && !world_.has_held() &&
           std::ranges::all_of(leaders, [&](const Operation* leader) {
               return leader->process_set == 0 && leader->signature.kind == Kind::collective &&
                      is_on_host(*leader) && context_.agreements.has(*leader);
           });
}

bool WorldProposal::offer(std::span<Operation* const> leaders) {
    for (Operation* leader : leaders) {
        if (!prepare_as_agreed(*leader, context_.agreements.of(*leader), world_.set()).empty()) {
            return false;
        }
    }
    for (Operation* leader : leaders) {
        leader->is_timed = false;
        leader->since = {};  // see note_time
    }
    proposed_.assign(leaders.begin(), leaders.end());
    const auto id_of = [](const Operation* leader) { return leader->group->cache_id; };
    if (!std::ranges::is_sorted(proposed_, {}, id_of)) {  // as they are in most programs
        std::ranges::sort(proposed_, {}, id_of);
    }
    ids_.clear();
    for (const Operation* leader : proposed_) {
        ids_.push_back(id_of(leader));
    }
    const Operation& first = *proposed_.front();
    has_payload_ = proposed_.size() == 1 && payload_limit_ != 0 &&
                   context_.agreements.of(first).carried_bytes <= payload_limit_;
    const bool has_own_part =
        has_payload_ && context_.agreements.of(first).carried_bytes > Payload::kMostBytes;
    if (!context_.channel.propose(
            ids_, has_payload_ ? payload_of(first, world_.set()) : std::span<const std::byte>(),
            has_own_part ? own_part_of(first, world_.set()) : OwnPart{})) {
        proposed_.clear();
        return false;
    }
    world_.set_proposed(proposed_.size());
    return true;
}

bool WorldProposal::settle(std::vector<Operation*>& ready) {
    const auto outcome = context_.channel.proposal();
    if (outcome == Proposal::waiting) {
        return false;
    }
    world_.set_proposed(0);
    settled_.swap(proposed_);  // both keep their memory for the next time
    proposed_.clear();
    if (outcome == Proposal::accepted) {
        find_inputs();
        if (settled_.front()->since != Waiting::TimePoint{}) {
            note_wait();
        }
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
    return true;
}

void WorldProposal::find_inputs() {
    if (!has_payload_) {
        return;
    }
    inputs_ = context_.channel.payloads();
    const Operation& only = *settled_.front();
    if (!reads_own_input(only)) {
        return;
    }
    parts_.assign(inputs_.begin(), inputs_.end());
    parts_[static_cast<std::size_t>(world_.set().place)] = only.in;
    if (only.signature.op == coll::Op::alltoall) {
        move_to_own_parts(only, world_.set(), parts_);
    }
    inputs_ = parts_;
}

/// The groups that were accepted were waited for asleep.
void WorldProposal::note_wait() {
    for (Operation* leader : settled_) {
        leader->is_timed = true;
        leader->last_rank = context_.channel.awaited_in_round();
    }
}

std::vector<Operation*> WorldProposal::take() {
    return std::exchange(proposed_, {});
}

void WorldProposal::note_time(Waiting::TimePoint now) {
    if (!proposed_.empty() && proposed_.front()->since == Waiting::TimePoint{}) {
        for (Operation* leader : proposed_) {
            leader->since = now;
        }
    }
}

void WorldProposal::list_waiting(std::vector<Waiting>& list) const {
    const auto missing =
        proposed_.empty() ? std::vector<int>{} : context_.channel.missing_in_round();
    if (missing.empty()) {
        return;
    }
    std::vector<int> waiting;
    std::ranges::set_difference(world_.set().ranks, missing, std::back_inserter(waiting));
    for (const Operation* leader : proposed_) {
        list.push_back({.stage = Waiting::Stage::proposal,
                        .process_set = 0,
                        .name = leader->name->text,
                        .waiting = waiting,
                        .missing = missing,
                        .since = leader->since});
    }
}

}  // namespace hvd::rt
