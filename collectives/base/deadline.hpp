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

    /// Never is after all others.
    [[nodiscard]] bool is_before(const Deadline& other) const noexcept {
        return end_ && (!other.end_ || *end_ < *other.end_);
    }

    /// The end of the first part of what is left, 0 to 1; this deadline itself where there is no
    /// time left or no end.
    [[nodiscard]] Deadline part(double part) const noexcept {
        const auto now = Clock::now();
        if (!end_ || now >= *end_) {
            return *this;
        }
        return Deadline(now + std::chrono::duration_cast<Clock::duration>((*end_ - now) * part));
    }

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
