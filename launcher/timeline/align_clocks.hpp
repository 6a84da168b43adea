// SPDX-License-Identifier: Apache-2.0
//
// The offsets that bring the traces of several hosts onto one clock. Pure.
#pragma once

#include "launcher/timeline/host_clocks.hpp"
#include "launcher/timeline/trace_start.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// From the steady clock of a rank to the one that all ranks of a merged trace have in common.
class RankClock final {
public:
    enum class Basis : std::uint8_t {
        same,      // it is the same clock
        measured,  // by horovodrun, while the job ran
        wall,      // by wall clocks: as well as these agree
    };

    /// At `at_ns` of the rank's clock the common one has that plus `shift_ns`.
    struct Point {
        std::int64_t at_ns = 0;
        std::int64_t shift_ns = 0;
    };

    RankClock() = default;

    /// The samples, at least one, are by time.
    [[nodiscard]] static RankClock measured(std::span<const ClockSample> samples);
    [[nodiscard]] static RankClock by_wall(std::int64_t shift_ns);

    /// Between two points the shift is interpolated, beyond them it is the nearest's.
    [[nodiscard]] std::int64_t to_common(std::int64_t time_ns) const noexcept;

    [[nodiscard]] Basis basis() const noexcept { return basis_; }

    /// For people: "measured to 0.05 ms".
    [[nodiscard]] std::string describe() const;

private:
    Basis basis_ = Basis::same;
    std::int64_t error_ns_ = 0;    // of what was measured, at most
    std::vector<Point> points_{};  // by time
};

struct Alignment {
    std::vector<RankClock> clocks;  // as `starts`
    std::vector<std::string> warnings;
};

/// Ranks with the same clock are shifted alike. `measured` is what horovodrun left, if anything.
[[nodiscard]] Alignment align_clocks(std::span<const TraceStart> starts,
                                     const std::optional<HostClocks>& measured);

/// Whether all ranks read the same clock, so that nothing need be known of it.
[[nodiscard]] bool have_one_clock(std::span<const TraceStart> starts);

}  // namespace hvd::launch
