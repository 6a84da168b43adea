// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/step_signals.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <utility>
#include <vector>

using hvd::launch::agent::StepSignals;
using std::chrono::milliseconds;

namespace {

const StepSignals::TimePoint kStart{};
constexpr milliseconds kSoon(10);
constexpr milliseconds kGrace(30'000);

}  // namespace

TEST_CASE("a signal that only horovodrun got is sent once, after a moment") {
    StepSignals signals;
    signals.ask(SIGUSR1, kStart, kGrace);

    CHECK(signals.deadline() == kStart + StepSignals::kHold);
    CHECK(signals.take_due(kStart + kSoon).empty());
    CHECK(signals.take_due(kStart + StepSignals::kHold) == std::vector{SIGUSR1});
    CHECK(signals.take_due(kStart + 2 * StepSignals::kHold).empty());
    CHECK_FALSE(signals.deadline());
}

TEST_CASE("a signal that the step got too is not sent, whichever came first") {
    StepSignals signals;
    SECTION("the step's") {
        CHECK(signals.hear(SIGTERM, kStart));
        signals.ask(SIGTERM, kStart + kSoon, kGrace);
    }
    SECTION("horovodrun's") {
        signals.ask(SIGTERM, kStart, kGrace);
        CHECK(signals.hear(SIGTERM, kStart + kSoon));
    }
    CHECK(signals.was_heard(SIGTERM, kStart));
    CHECK_FALSE(signals.deadline());
    CHECK(signals.take_due(kStart + 2 * StepSignals::kHold).empty());
}

TEST_CASE("signals do not stand for each other, nor do those of long ago") {
    StepSignals signals;
    CHECK(signals.hear(SIGTERM, kStart));
    CHECK_FALSE(signals.hear(SIGTERM, kStart + kSoon));
    signals.ask(SIGUSR1, kStart + kSoon, kGrace);
    CHECK(signals.take_due(kStart + kSoon + StepSignals::kHold) == std::vector{SIGUSR1});

    const auto later = kStart + kSoon + StepSignals::kSame;
    signals.ask(SIGTERM, later, kGrace);
    CHECK(signals.take_due(later + StepSignals::kHold) == std::vector{SIGTERM});
}

TEST_CASE("a signal of long ago does not stand for one that ends the job") {
    StepSignals signals;
    (void)signals.hear(SIGTERM, kStart);

    CHECK(signals.was_heard(SIGTERM, kStart));
    CHECK_FALSE(signals.was_heard(SIGTERM, kStart + kSoon));
    CHECK_FALSE(signals.was_heard(SIGINT, kStart));
}

TEST_CASE("of stopping and going on within a moment the last one counts") {
    const auto [first, last] = GENERATE(std::pair(SIGTSTP, SIGCONT), std::pair(SIGCONT, SIGTSTP));
    StepSignals signals;
    signals.ask(first, kStart, kGrace);
    signals.ask(last, kStart + kSoon, kGrace);

    CHECK(signals.take_due(kStart + 2 * StepSignals::kHold) == std::vector{last});
}

TEST_CASE("a signal comes well before the end of a short grace, and never after the kill") {
    StepSignals signals;
    signals.ask(SIGTERM, kStart, milliseconds(400));

    CHECK(signals.deadline() == kStart + milliseconds(100));
    signals.ask(SIGINT, kStart, milliseconds(0));
    CHECK(signals.take_due(kStart) == std::vector{SIGINT});
    signals.drop_held();
    CHECK(signals.take_due(kStart + StepSignals::kHold).empty());
}

TEST_CASE("a signal that ends nothing is held back as long with a short grace") {
    StepSignals signals;
    signals.ask(SIGUSR1, kStart, milliseconds(0));

    CHECK(signals.deadline() == kStart + StepSignals::kHold);
}

TEST_CASE("a signal that is still to come is expected for a moment, then never again") {
    StepSignals signals;
    CHECK_FALSE(signals.is_expecting(kStart));
    signals.expect(kStart);

    CHECK(signals.deadline() == kStart + StepSignals::kStepTime);
    CHECK(signals.is_expecting(kStart));
    CHECK_FALSE(signals.is_expecting(kStart + StepSignals::kStepTime));
    CHECK_FALSE(signals.deadline());
}
