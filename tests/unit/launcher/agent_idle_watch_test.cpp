// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/idle_watch.hpp"

#include <catch2/catch.hpp>

#include <chrono>

using hvd::launch::agent::IdleWatch;
using namespace std::chrono_literals;

TEST_CASE("what is idle all the time for the grace is overdue, and once more after as long") {
    IdleWatch watch;
    const IdleWatch::TimePoint begin{};

    CHECK_FALSE(watch.is_overdue(true, begin));
    CHECK(watch.deadline() == begin + IdleWatch::kGrace);
    CHECK_FALSE(watch.is_overdue(true, begin + IdleWatch::kGrace - 1ms));
    CHECK(watch.is_overdue(true, begin + IdleWatch::kGrace));
    CHECK_FALSE(watch.is_overdue(true, begin + IdleWatch::kGrace + 1ms));
    CHECK(watch.is_overdue(true, begin + 2 * IdleWatch::kGrace));
}

TEST_CASE("who was busy in between has the whole grace again") {
    IdleWatch watch;
    const IdleWatch::TimePoint begin{};
    CHECK_FALSE(watch.is_overdue(true, begin));

    CHECK_FALSE(watch.is_overdue(false, begin + 5s));
    CHECK_FALSE(watch.deadline());

    CHECK_FALSE(watch.is_overdue(true, begin + IdleWatch::kGrace));
    CHECK(watch.is_overdue(true, begin + 2 * IdleWatch::kGrace));
}
