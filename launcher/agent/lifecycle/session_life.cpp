// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/session_life.hpp"

#include <algorithm>
#include <array>

namespace hvd::launch::agent {
namespace {

using State = SessionLife::State;
using Event = SessionLife::Event;

struct Transition {
    State state;
    Event event;
    State next;
};

constexpr std::array kTransitions{
    Transition{State::connected, Event::started, State::running},
    Transition{State::connected, Event::released, State::over},
    Transition{State::running, Event::ranks_ended, State::clearing},
    Transition{State::running, Event::gave_up, State::draining},
    Transition{State::clearing, Event::nothing_left, State::draining},
    Transition{State::clearing, Event::signal_awaited, State::settling},
    Transition{State::clearing, Event::gave_up, State::draining},
    Transition{State::settling, Event::settled, State::draining},
    Transition{State::draining, Event::delivered, State::reported},
    Transition{State::reported, Event::released, State::over},
};

}  // namespace

bool SessionLife::on(Event event) noexcept {
    const auto* const found = std::ranges::find_if(kTransitions, [&](const Transition& transition) {
        return transition.state == state_ && transition.event == event;
    });
    if (found == kTransitions.end()) {
        return false;
    }
    state_ = found->next;
    return true;
}

}  // namespace hvd::launch::agent
