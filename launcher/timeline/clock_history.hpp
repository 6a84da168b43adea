// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/timeline/host_clocks.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd::launch {

/// How a clock differed from ours over a whole job: clocks drift, by milliseconds an hour. Of each
/// span of time the most exact sample is kept; the spans double when kMost of them are full.
class ClockHistory final {
public:
    static constexpr std::size_t kMost = 256;
    static constexpr std::int64_t kFirstSpanNs = 8'000'000'000;

    /// Samples come in the order of their times.
    void add(const ClockSample& sample);

    [[nodiscard]] const std::vector<ClockSample>& samples() const noexcept { return samples_; }

private:
    std::int64_t span_ns_ = kFirstSpanNs;
    std::vector<ClockSample> samples_;
};

}  // namespace hvd::launch
