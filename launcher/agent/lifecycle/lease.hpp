// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

namespace hvd::launch::agent {

/// For how long the agent may keep its ranks without a word of the launcher. A machine without I/O.
class Lease final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// A Ping came. A term of 0 lifts the lease.
    void renew(std::chrono::milliseconds term, TimePoint now) noexcept {
        term_ = term;
        heard_at_ = now;
    }

    /// Anything came.
    void heard(TimePoint now) noexcept { heard_at_ = now; }

    [[nodiscard]] std::chrono::milliseconds term() const noexcept { return term_; }

    /// When it ends unless something is heard; nothing while there is no lease.
    [[nodiscard]] std::optional<TimePoint> end() const noexcept {
        return term_.count() > 0 ? std::optional(heard_at_ + term_) : std::nullopt;
    }

    [[nodiscard]] bool is_over(TimePoint now) const noexcept {
        const auto limit = end();
        return limit && now >= *limit;
    }

private:
    std::chrono::milliseconds term_{0};
    TimePoint heard_at_{};
};

}  // namespace hvd::launch::agent
