// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace hvd::launch::agent {

/// Nanoseconds on a clock that is never set: the order of events on this host.
[[nodiscard]] inline std::int64_t steady_clock_ns() noexcept {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace hvd::launch::agent
