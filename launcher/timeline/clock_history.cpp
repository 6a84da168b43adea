// SPDX-License-Identifier: Apache-2.0
#include "launcher/timeline/clock_history.hpp"

#include <utility>

namespace hvd::launch {

void ClockHistory::add(const ClockSample& sample) {
    if (samples_.empty() || samples_.back().at_ns / span_ns_ != sample.at_ns / span_ns_) {
        samples_.push_back(sample);
    } else if (sample.error_ns < samples_.back().error_ns) {
        samples_.back() = sample;
    }
    if (samples_.size() > kMost) {
        span_ns_ *= 2;
        for (const auto& each : std::exchange(samples_, {})) {
            add(each);
        }
    }
}

}  // namespace hvd::launch
