// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/intake.hpp"

#include "runtime/engine/set_negotiation.hpp"
#include "runtime/engine/staged_copies.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {

/// Of operations on devices' tensors two kinds come that are not to be agreed on: those whose
/// result is back, and those whose input did not come.
void Intake::take() {
    const auto known = leaders_.size();
    inbox_.take(leaders_);
    const auto is_not_for_agreement = [this](Operation* operation) {
        if (operation->staged != nullptr && operation->staged->is_returning) {
            tickets_.complete(*operation);
            return true;
        }
        const auto* const failure = StagedCopies::failure_of(*operation);
        if (failure != nullptr) {
            fail_group(tickets_, *operation, Error(*failure));  // a copy: it may be given back
        }
        return failure != nullptr;
    };
    const auto first_new = leaders_.begin() + static_cast<std::ptrdiff_t>(known);
    leaders_.erase(std::remove_if(first_new, leaders_.end(), is_not_for_agreement), leaders_.end());
}

void Intake::put(std::span<Operation* const> leaders) {
    take();  // submitted before, perhaps by this thread: a join, say
    leaders_.insert(leaders_.end(), leaders.begin(), leaders.end());
}

bool Intake::may_gather(std::size_t most_bytes) {
    if (cycle_time_.count() == 0) {
        return false;
    }
    std::size_t bytes = 0;
    for (const Operation* leader : leaders_) {
        for_each_member(*leader,
                        [&](const Operation& member) { bytes += byte_count(member.signature); });
    }
    const auto now = Deadline::Clock::now();
    gather_until_ = gather_until_.value_or(now + cycle_time_);
    return bytes < most_bytes && now < *gather_until_;
}

void Intake::clear() noexcept {
    leaders_.clear();
    gather_until_.reset();
}

std::vector<Operation*> Intake::release() {
    gather_until_.reset();
    return std::exchange(leaders_, {});
}

}  // namespace hvd::rt
