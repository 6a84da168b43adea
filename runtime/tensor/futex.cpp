// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/futex.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvd::rt {

void futex_wait(std::atomic<std::uint32_t>& word,
                std::uint32_t expected,
                Deadline deadline) noexcept {
    timespec until{};
    if (const auto end = deadline.end()) {
        const auto since_epoch = end->time_since_epoch();
        const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
        until.tv_sec = seconds.count();
        until.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
    }
    // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock, which steady_clock is.
    (void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
                  deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
    (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace hvd::rt
