// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/wall_clock.hpp"

#include <cmath>

namespace hvd::launch {
namespace {

constexpr double kTolerance = 1.0;  // seconds

}  // namespace

ClockReading read_clock(std::int64_t asked_ns,
                        std::int64_t there_ns,
                        std::int64_t heard_ns) noexcept {
    constexpr double kHalfOfNano = 0.5e-9;
    const auto there = static_cast<double>(there_ns - asked_ns);
    const auto back = static_cast<double>(heard_ns - there_ns);
    return {.ahead_seconds = (there - back) * kHalfOfNano,
            .error_seconds = (there + back) * kHalfOfNano};
}

std::string warn_of_clock(const ClockReading& clock) {
    if (std::abs(clock.ahead_seconds) <= kTolerance + clock.error_seconds) {
        return {};
    }
    const auto seconds = std::to_string(std::llround(std::abs(clock.ahead_seconds)));
    return "its clock is " + seconds + " s " + (clock.ahead_seconds < 0 ? "behind" : "ahead of") +
           " this machine's, so times of files and logs contradict each other; set it by NTP";
}

}  // namespace hvd::launch
