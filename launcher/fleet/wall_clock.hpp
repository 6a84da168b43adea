// SPDX-License-Identifier: Apache-2.0
//
// How the clocks that show the date differ between hosts. (Events are ordered by other clocks,
// which nobody sets: clock_offset.hpp.)
#pragma once

#include <cstdint>
#include <string>

namespace hvd::launch {

/// The offset of a host's clock from the local one, and its uncertainty.
struct ClockReading {
    double ahead_seconds = 0;
    double error_seconds = 0;

    friend bool operator==(const ClockReading&, const ClockReading&) = default;
};

/// From a question and its answer: asked and heard by our clock, `there_ns` by the other one.
[[nodiscard]] ClockReading read_clock(std::int64_t asked_ns,
                                      std::int64_t there_ns,
                                      std::int64_t heard_ns) noexcept;

/// A sentence about a clock that is more than a second off; else empty.
[[nodiscard]] std::string warn_of_clock(const ClockReading& clock);

}  // namespace hvd::launch
