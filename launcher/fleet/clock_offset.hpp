// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/wire/messages.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hvd::launch {

/// The offset of another host's clock from the local one, from questions and answers as in NTP:
/// half the difference of the two directions' delays, of the exchange with the shortest round trip.
/// Only the last kSamples count, because clocks drift.
class ClockOffset final {
public:
    static constexpr std::size_t kSamples = 16;

    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// It is wrong by at most half of `round_trip_ns`.
    struct Sample {
        std::int64_t ahead_ns = 0;
        std::int64_t round_trip_ns = 0;
        friend bool operator==(const Sample&, const Sample&) = default;
    };

    /// By one answer; nothing for times that no clocks show.
    [[nodiscard]] static std::optional<Sample> measure(const wire::Pong& pong,
                                                       std::int64_t now_ns) noexcept;

    void add(const wire::Pong& pong, std::int64_t now_ns) noexcept;

    /// Nothing before the first sample.
    [[nodiscard]] std::optional<Sample> best() const noexcept;

    /// A time of that host's clock on ours. An event is not later than the arrival of its message;
    /// before the first sample the time of arrival is the only estimate.
    [[nodiscard]] std::int64_t to_our_clock(std::int64_t time_ns,
                                            std::int64_t news_ns) const noexcept;

private:
    std::array<Sample, kSamples> samples_{};
    std::size_t count_ = 0;
};

}  // namespace hvd::launch
