// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/termination.hpp"

#include <algorithm>

namespace hvd::launch::agent {

Termination::Action Termination::stop(std::chrono::milliseconds grace, TimePoint now) {
    is_wanted_ = true;
    if (state_ == State::killing) {
        return Action::none;
    }
    if (grace.count() <= 0) {
        return start_killing(now);
    }
    const bool is_first = state_ == State::idle;
    state_ = State::asked;
    deadline_ = std::min(deadline_.value_or(TimePoint::max()), now + grace);
    return is_first ? Action::term_ranks : Action::none;
}

void Termination::ask(std::chrono::milliseconds grace, TimePoint now) noexcept {
    asked_until_ = std::min(asked_until_.value_or(TimePoint::max()), now + grace);
}

Termination::Action Termination::leftovers(std::chrono::milliseconds grace, TimePoint now) {
    if (state_ == State::killing || asked_leftovers_) {
        return Action::none;
    }
    asked_leftovers_ = true;
    if (is_wanted_) {
        return Action::term_leftovers;
    }
    if (grace.count() <= 0) {
        return start_killing(now);
    }
    state_ = State::asked;
    const auto end = now + std::min(grace, std::chrono::milliseconds(kLeftoverGrace));
    deadline_ = asked_until_.value_or(end);
    return Action::term_leftovers;
}

Termination::Action Termination::time_passed(TimePoint now) {
    if (!deadline_ || now < *deadline_) {
        return Action::none;
    }
    if (state_ == State::asked) {
        return start_killing(now);
    }
    if (now >= give_up_at_) {
        deadline_.reset();
        return Action::give_up;
    }
    deadline_ = now + kKillAgain;
    return Action::kill;
}

Termination::Action Termination::start_killing(TimePoint now) {
    state_ = State::killing;
    deadline_ = now + kKillAgain;
    give_up_at_ = now + kKillTime;
    return Action::kill;
}

}  // namespace hvd::launch::agent
