// SPDX-License-Identifier: Apache-2.0
//
// The file beside the traces of the ranks: the offsets of their hosts' steady clocks
// from horovodrun's while the job ran.
#pragma once

#include "collectives/base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The name of the file in the folder of --timeline-all.
inline constexpr std::string_view kHostClocksFile = "hosts.json";

/// One measurement, in nanoseconds.
struct ClockSample {
    std::int64_t at_ns = 0;     // by horovodrun's clock
    std::int64_t ahead_ns = 0;  // the host's clock is ahead of horovodrun's by this
    std::int64_t error_ns = 0;  // and that is wrong by at most this
    friend bool operator==(const ClockSample&, const ClockSample&) = default;
};

struct HostClock {
    std::string host{};
    std::vector<int> ranks{};            // ascending
    std::vector<ClockSample> samples{};  // by time; none: its agent never answered
    friend bool operator==(const HostClock&, const HostClock&) = default;
};

struct HostClocks {
    std::string job{};           // 32 hexadecimal digits
    std::string clock{};         // steady_clock_id() of horovodrun
    std::int64_t steady_ns = 0;  // of that clock,
    std::int64_t wall_ns = 0;    // when horovodrun's wall clock said this, since the epoch
    std::vector<HostClock> hosts{};
    friend bool operator==(const HostClocks&, const HostClocks&) = default;
};

[[nodiscard]] std::string to_json(const HostClocks& clocks);

/// Errors: invalid_argument for any other text.
[[nodiscard]] Result<HostClocks> parse_host_clocks(std::string_view text);

}  // namespace hvd::launch
