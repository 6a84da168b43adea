// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>

namespace hvd::coll::cuda {

/// Launches of collectives, and calls of the driver that wait for them: not at the same time.
///
/// Thread: any.
class QuietTurn {
public:
    /// Ends a launch, or holding launches back, at its destruction. nullptr: not now.
    struct End {
        QuietTurn* turn;
        void operator()(int* count) const noexcept {
            const std::lock_guard lock(turn->mutex_);
            --*count;
        }
    };
    using Turn = std::unique_ptr<int, End>;

    [[nodiscard]] Turn begin_launch() {
        const std::lock_guard lock(mutex_);
        return {holders_ == 0 ? &++launches_ : nullptr, End{this}};
    }

    /// No launch begins until the result goes.
    [[nodiscard]] Turn hold_launches() {
        const std::lock_guard lock(mutex_);
        return {&++holders_, End{this}};
    }

    [[nodiscard]] bool has_launches() const {
        const std::lock_guard lock(mutex_);
        return launches_ != 0;
    }

private:
    mutable std::mutex mutex_;
    int launches_ = 0;  // guarded by mutex_
    int holders_ = 0;   // guarded by mutex_
};

}  // namespace hvd::coll::cuda
