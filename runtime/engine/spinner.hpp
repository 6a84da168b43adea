// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include <sched.h>

namespace hvd::rt {

/// How long to look for progress before sleeping: about what a wake-up costs.
///
/// Where every rank has a processor it spins; where ranks share processors the peer needs this one
/// to make progress, so that it yields almost at once.
class Spinner {
public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::chrono::microseconds kLimit{50};

    explicit Spinner(bool is_oversubscribed) noexcept : is_oversubscribed_(is_oversubscribed) {}

    /// Something moved: the wait starts anew.
    void reset() noexcept { rounds_ = 0; }

    /// Passes a moment. False when it is time to sleep.
    [[nodiscard]] bool pause() noexcept {
        ++rounds_;
        if (is_oversubscribed_ && rounds_ > kPausesBeforeYield) {
            (void)sched_yield();
        } else {
            relax();
        }
        if (rounds_ % kRoundsPerLook != 0) {
            return true;
        }
        // Not before: what is waited for is often there sooner than the clock is read.
        const auto now = Clock::now();
        if (rounds_ == kRoundsPerLook) {
            start_ = now;
        }
        return now - start_ < kLimit;
    }

private:
    static constexpr unsigned kPausesBeforeYield = 8;  // 0.25 us
    static constexpr unsigned kRoundsPerLook = 16;

    static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield" ::: "memory");
#endif
    }

    bool is_oversubscribed_;
    unsigned rounds_ = 0;
    Clock::time_point start_;
};

}  // namespace hvd::rt
