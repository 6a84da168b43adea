// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"

#include <chrono>
#include <ctime>

namespace hvd::rt {

/// The time of Deadline::Clock as of the kernel's last tick, some milliseconds ago at most: for
/// stamps on paths where reading the clock itself would be noticed.
[[nodiscard]] inline Deadline::Clock::time_point coarse_now() noexcept {
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);  // fails for unknown clocks only
    return Deadline::Clock::time_point(std::chrono::seconds(now.tv_sec) +
                                       std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace hvd::rt
