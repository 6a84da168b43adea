// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "runtime/execution/communicators.hpp"

#include <chrono>

namespace hvd::rt {

/// Has the backends give memory of devices back once these have been idle for a while.
///
/// Thread: progress lock.
class IdleRelease {
public:
    /// `backends` outlives this.
    IdleRelease(const Backends& backends, std::chrono::milliseconds limit)
        : backends_(backends), limit_(limit) {}

    /// A device has ended work.
    void on_work_ended() noexcept { at_ = Deadline::in(limit_); }

    /// Called while nothing runs or waits.
    void release_if_due();

    /// When to call it again.
    [[nodiscard]] Deadline due() const noexcept { return at_; }

private:
    const Backends& backends_;
    std::chrono::milliseconds limit_;
    Deadline at_ = Deadline::never();
};

}  // namespace hvd::rt
