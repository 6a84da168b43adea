// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace hvd {

/// Counts what one thread at a time does, for any thread to read. Orders nothing by itself: what
/// was counted before an operation completed is seen by every thread that has seen it complete.
class Tally {
public:
    Tally& operator+=(std::uint64_t more) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
        return *this;
    }

    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint64_t> value_{0};
};

}  // namespace hvd
