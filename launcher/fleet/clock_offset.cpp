// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/clock_offset.hpp"

#include <algorithm>

namespace hvd::launch {

std::optional<ClockOffset::Sample> ClockOffset::measure(const wire::Pong& pong,
                                                        std::int64_t now_ns) noexcept {
    const auto there = pong.heard_ns - pong.asked_ns;
    const auto back = now_ns - pong.answered_ns;
    if (there + back < 0) {
        return std::nullopt;
    }
    return Sample{.ahead_ns = (there - back) / 2, .round_trip_ns = there + back};
}

void ClockOffset::add(const wire::Pong& pong, std::int64_t now_ns) noexcept {
    if (const auto sample = measure(pong, now_ns)) {
        samples_.at(count_ % kSamples) = *sample;
        ++count_;
    }
}

std::optional<ClockOffset::Sample> ClockOffset::best() const noexcept {
    const auto end = samples_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kSamples));
    const auto* best = std::min_element(
        samples_.begin(), end,
        [](const Sample& a, const Sample& b) { return a.round_trip_ns < b.round_trip_ns; });
    return best == end ? std::nullopt : std::optional(*best);
}

std::int64_t ClockOffset::to_our_clock(std::int64_t time_ns, std::int64_t news_ns) const noexcept {
    const auto sample = best();
    return sample ? std::min(time_ns - sample->ahead_ns, news_ns) : news_ns;
}

}  // namespace hvd::launch
