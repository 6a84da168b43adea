// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/negotiator.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {
namespace {

std::size_t member_count(const Operation& head) noexcept {
    std::size_t count = 0;
    for (const Operation* member = &head; member != nullptr; member = member->next) {
        ++count;
    }
    return count;
}

}  // namespace

Negotiator::Negotiator(Channel& channel,
                       TicketTable& tickets,
                       std::optional<Coordinator> coordinator,
                       std::optional<std::size_t> fusion_bytes)
    : channel_(channel),
      tickets_(tickets),
      coordinator_(std::move(coordinator)),
      fusion_bytes_(fusion_bytes) {}

Negotiator::~Negotiator() {
    for (const auto& agreement : agreements_) {
        if (agreement.unit != nullptr) {
            forget(*agreement.unit);
        }
    }
}

void Negotiator::forget(Name& unit) {
    unit.agreed_id = kNoId;
    tickets_.uncache(unit);
}

bool Negotiator::is_cached(const Operation& head) const {
    if (head.unit->agreed_id == kNoId) {
        return false;
    }
    const auto& signatures = agreements_[head.unit->agreed_id].signatures;
    std::size_t index = 0;
    for (const Operation* member = &head; member != nullptr; member = member->next) {
        if (!(member->signature == signatures[index])) {
            return false;
        }
        ++index;
    }
    return true;
}

void Negotiator::submit(std::span<Operation* const> heads, Urgency urgency) {
    if (!proposed_.empty()) {
        // A proposal cannot be taken back, and nothing else may be said beside it.
        held_.insert(held_.end(), heads.begin(), heads.end());
        return;
    }
    const bool may_propose =
        urgency == Urgency::awaited && open_ == 0 &&
        std::ranges::all_of(heads, [&](const Operation* head) { return is_cached(*head); });
    if (may_propose) {
        proposed_.assign(heads.begin(), heads.end());
        std::ranges::sort(proposed_, {},
                          [](const Operation* head) { return head->unit->agreed_id; });
        ids_.clear();
        for (const Operation* head : proposed_) {
            ids_.push_back(head->unit->agreed_id);
        }
        if (channel_.propose(ids_)) {
            open_ = proposed_.size();
            return;
        }
        proposed_.clear();
    }
    say(heads);
}

void Negotiator::say(std::span<Operation* const> heads) {
    open_ += heads.size();
    ids_.clear();
    for (Operation* head : heads) {
        if (is_cached(*head)) {
            agreements_[head->unit->agreed_id].marked = head;
            ids_.push_back(head->unit->agreed_id);
        } else {
            announce(*head);
        }
    }
    if (!ids_.empty()) {
        channel_.mark(ids_, open_ > ids_.size());
    }
}

void Negotiator::announce(Operation& head) {
    Announcement announcement;
    for (const Operation* member = &head; member != nullptr; member = member->next) {
        announcement.members.push_back({member->name->text, member->signature});
    }
    announced_[head.unit->text] = &head;
    auto message = encode(announcement);
    totals_.names_bytes += message.size();
    channel_.announce(std::move(message));
}

Result<bool> Negotiator::step(std::vector<Operation*>& ready) {
    bool moved = channel_.flush();
    if (!proposed_.empty()) {
        return settle_proposal(ready);
    }
    HVD_TRY(const bool coordinated, coordinate());
    HVD_TRY(auto event, channel_.poll());
    if (!event) {
        return moved || coordinated;
    }
    if (auto* decided = std::get_if<event::Decided>(&*event)) {
        HVD_TRY_STATUS(on(*decided, ready));
    } else if (const auto* invalidated = std::get_if<event::Invalidated>(&*event)) {
        on(*invalidated);
    } else {
        on(std::get<event::Ready>(*event), ready);
    }
    return true;
}

Result<bool> Negotiator::settle_proposal(std::vector<Operation*>& ready) {
    const auto outcome = channel_.proposal();
    if (outcome == Proposal::waiting) {
        return false;
    }
    if (outcome == Proposal::accepted) {
        for (Operation* head : proposed_) {
            totals_.by_bit += member_count(*head);
            accept(*head, ready);
        }
        proposed_.clear();
    } else {
        open_ = 0;
        say(std::exchange(proposed_, {}));
    }
    if (!held_.empty()) {
        const auto held = std::exchange(held_, {});
        say(held);
    }
    return true;
}

void Negotiator::accept(Operation& head, std::vector<Operation*>& ready) {
    const auto id = head.unit->agreed_id;
    if (id != kNoId) {
        const auto& rows = agreements_[id].rows;
        std::size_t index = 0;
        for (Operation* member = &head; member != nullptr; member = member->next) {
            member->rows = rows[index++];
        }
    }
    --open_;
    ready.push_back(&head);
}

Result<bool> Negotiator::coordinate() {
    if (!coordinator_) {
        return false;
    }
    std::vector<Verdict> verdicts;
    while (true) {
        HVD_TRY(auto heard, channel_.hear());
        if (!heard) {
            break;
        }
        HVD_TRY(auto announcement, decode_announcement(heard->message));
        for (auto& verdict : coordinator_->announce(heard->rank, std::move(announcement))) {
            verdicts.push_back(std::move(verdict));
        }
    }
    auto decisions = std::ranges::count_if(
        verdicts, [](const Verdict& each) { return std::holds_alternative<Decision>(each); });
    for (auto& verdict : verdicts) {
        if (auto* decision = std::get_if<Decision>(&verdict)) {
            decision->fusion_bytes = fusion_bytes_;
            channel_.decide(encode(*decision), decision->id, --decisions > 0);
        } else {
            channel_.invalidate(std::get<Invalidation>(verdict).id);
        }
    }
    return !verdicts.empty();
}

Status Negotiator::on(event::Decided& decided, std::vector<Operation*>& ready) {
    totals_.names_bytes += decided.message.size();
    HVD_TRY(const auto decision, decode_decision(decided.message));
    fusion_bytes_ = decision.fusion_bytes;
    const auto found = announced_.find(decision.unit);
    if (found == announced_.end()) {
        return Error{Errc::internal, "a decision about '" + decision.unit + "' was not asked for"};
    }
    Operation& head = *found->second;
    announced_.erase(found);
    if (decision.error) {
        --open_;
        fail(head, *decision.error);
    } else {
        totals_.by_name += member_count(head);
        learn(decision, head);
        decided_.push_back(&head);
    }
    if (!decided.more) {
        for (Operation* each : std::exchange(decided_, {})) {
            --open_;
            ready.push_back(each);
        }
        channel_.next_round(open_ != 0);
    }
    return ok();
}

void Negotiator::learn(const Decision& decision, Operation& head) {
    std::size_t index = 0;
    for (Operation* member = &head; member != nullptr; member = member->next) {
        member->rows = decision.rows[index++];
    }
    if (decision.id == kNoId) {
        return;
    }
    if (decision.id >= agreements_.size()) {
        agreements_.resize(decision.id + std::size_t{1});
    }
    Agreement& agreement = agreements_[decision.id];
    agreement.unit = head.unit;
    agreement.marked = nullptr;
    agreement.rows = decision.rows;
    agreement.signatures.clear();
    for (const Operation* member = &head; member != nullptr; member = member->next) {
        agreement.signatures.push_back(member->signature);
    }
    head.unit->agreed_id = decision.id;
    head.unit->cached.store(true, std::memory_order_relaxed);
}

void Negotiator::on(const event::Invalidated& invalidated) {
    if (invalidated.id >= agreements_.size() || agreements_[invalidated.id].unit == nullptr) {
        return;  // this rank has never learned it
    }
    const Agreement agreement = std::exchange(agreements_[invalidated.id], {});
    forget(*agreement.unit);  // a marked operation still holds the name
    if (agreement.marked != nullptr) {
        announce(*agreement.marked);
    }
}

void Negotiator::on(const event::Ready& batch, std::vector<Operation*>& ready) {
    for (const auto id : batch.ids) {
        // An id that was taken back just before it became ready: every rank sees the same order and
        // has announced the unit again.
        if (id >= agreements_.size() || agreements_[id].marked == nullptr) {
            continue;
        }
        Operation& head = *std::exchange(agreements_[id].marked, nullptr);
        totals_.by_bit += member_count(head);
        accept(head, ready);
    }
    channel_.next_round(open_ != 0);
}

void Negotiator::fail(Operation& head, const Error& cause) {
    for (Operation* member = &head; member != nullptr;) {
        Operation* next = member->next;
        member->failed = true;
        member->error = cause;
        tickets_.complete(*member);
        member = next;
    }
}

void Negotiator::fail_open(const Error& cause) {
    std::vector<Operation*> lost = std::exchange(held_, {});
    lost.insert(lost.end(), proposed_.begin(), proposed_.end());
    lost.insert(lost.end(), decided_.begin(), decided_.end());
    for (const auto& [unit, head] : announced_) {
        lost.push_back(head);
    }
    for (auto& agreement : agreements_) {
        if (agreement.marked != nullptr) {
            lost.push_back(std::exchange(agreement.marked, nullptr));
        }
    }
    proposed_.clear();
    decided_.clear();
    announced_.clear();
    open_ = 0;
    for (Operation* head : lost) {
        fail(*head, cause);
    }
}

}  // namespace hvd::rt
