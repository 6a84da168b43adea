// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/session_life.hpp"

#include <catch2/catch.hpp>

#include <array>

namespace {

using hvd::launch::agent::SessionLife;
using State = SessionLife::State;
using Event = SessionLife::Event;

SessionLife running() {
    SessionLife life;
    REQUIRE(life.on(Event::started));
    return life;
}

}  // namespace

TEST_CASE("a session goes from its plan over the end of the ranks to the last report") {
    auto life = running();
    constexpr std::array kSteps{std::pair(Event::ranks_ended, State::clearing),
                                std::pair(Event::nothing_left, State::draining),
                                std::pair(Event::delivered, State::reported),
                                std::pair(Event::released, State::over)};

    for (const auto& [event, state] : kSteps) {
        REQUIRE(life.on(event));
        CHECK(life.state() == state);
    }
}

TEST_CASE("a session without a plan may end at once, one with ranks not before its report") {
    SessionLife early;
    auto late = running();

    CHECK(early.on(Event::released));
    CHECK(early.is(State::over));
    CHECK_FALSE(late.on(Event::released));
    CHECK(late.is(State::running));
}

TEST_CASE("a second plan means nothing") {
    auto life = running();

    CHECK_FALSE(life.on(Event::started));
}

TEST_CASE("what KILL did not end is reported once, whether ranks or others withstand") {
    auto ranks = running();
    auto others = running();
    REQUIRE(others.on(Event::ranks_ended));

    for (auto* life : {&ranks, &others}) {
        CHECK(life->on(Event::gave_up));
        CHECK(life->is(State::draining));
        CHECK_FALSE(life->on(Event::gave_up));
    }
}

TEST_CASE("a signal of Slurm is awaited between the last process and the report") {
    auto life = running();
    REQUIRE(life.on(Event::ranks_ended));

    CHECK(life.on(Event::signal_awaited));
    CHECK_FALSE(life.on(Event::delivered));
    CHECK(life.on(Event::settled));
    CHECK(life.is(State::draining));
}
