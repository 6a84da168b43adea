// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/wall_clock.hpp"

#include <catch2/catch.hpp>

#include <cstdint>

using hvd::launch::read_clock;
using hvd::launch::warn_of_clock;

TEST_CASE("a clock is read in the middle of question and answer") {
    constexpr std::int64_t kMs = 1'000'000;
    const auto clock = read_clock(100 * kMs, 2'105 * kMs, 110 * kMs);

    CHECK(clock.ahead_seconds == Approx(2.0));
    CHECK(clock.error_seconds == Approx(0.005));
}

TEST_CASE("a clock that is more than a second off, without a doubt, is worth a warning") {
    CHECK(warn_of_clock({.ahead_seconds = 0.9, .error_seconds = 0.01}).empty());
    CHECK(warn_of_clock({.ahead_seconds = -4, .error_seconds = 3.5}).empty());
    CHECK_THAT(warn_of_clock({.ahead_seconds = 95.2, .error_seconds = 0.01}),
               Catch::StartsWith("its clock is 95 s ahead of this machine's"));
    CHECK_THAT(warn_of_clock({.ahead_seconds = -2, .error_seconds = 0.01}),
               Catch::Contains("2 s behind this machine's") && Catch::EndsWith("set it by NTP"));
}
