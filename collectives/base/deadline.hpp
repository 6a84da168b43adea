// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace hvd {

/// A point in time up to which a whole operation may take. It is passed down through the steps, so
/// that none of them starts another time limit.
class Deadline {
public:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] static Deadline in(Clock::duration span) noexcept {
        return Deadline(Clock::now() + span);
    }
    [[nodiscard]] static Deadline never() noexcept { return Deadline(std::nullopt); }
    explicit Deadline(std::optional<Clock::time_point> end) noexcept : end_(end) {}

    [[nodiscard]] bool is_never() const noexcept { return !end_; }
    [[nodiscard]] bool has_passed() const noexcept { return end_ && Clock::now() >= *end_; }

    /// For poll and epoll_wait: at least 0, -1 for never; rounded up, so that a wait that ends in
    /// time-out has really passed the deadline.
    [[nodiscard]] int poll_timeout_ms() const noexcept {
        if (!end_) {
            return -1;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_ - Clock::now());
        return static_cast<int>(std::clamp<long long>(left.count(), 0, 1'000'000'000));
    }

    [[nodiscard]] std::optional<Clock::time_point> end() const noexcept { return end_; }

private:
    std::optional<Clock::time_point> end_;
};

}  // namespace hvd
