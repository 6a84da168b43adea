// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

namespace hvd::launch::agent {

/// How long something that should end is idle. A machine without I/O.
class IdleWatch final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// Open MPI takes 5 s for an orderly end where a rank has failed.
    static constexpr auto kGrace = std::chrono::seconds(10);

    /// True when it has been idle all the time for `kGrace`, then again after as long.
    [[nodiscard]] bool is_overdue(bool is_idle, TimePoint now);

    [[nodiscard]] std::optional<TimePoint> deadline() const noexcept { return deadline_; }

private:
    std::optional<TimePoint> deadline_;
};

}  // namespace hvd::launch::agent
