// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

namespace hvd::rt {

/// The right to make progress: engine state belongs to the thread that holds this lock. Normally
/// that is the engine's thread; a caller that would block, and finds the lock free, takes it and
/// drives the same loop until its own operation is done, as in MPI progress engines.
///
/// Thread: any.
class ProgressLock {
public:
    /// While it lives, this thread holds the lock.
    class Hold {
    public:
        Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
        Hold& operator=(Hold&&) = delete;
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        ~Hold() {
            if (lock_ != nullptr) {
                lock_->owner_.store({}, std::memory_order_relaxed);
                lock_->mutex_.unlock();
            }
        }

        [[nodiscard]] explicit operator bool() const noexcept { return lock_ != nullptr; }

    private:
        friend class ProgressLock;
        explicit Hold(ProgressLock* lock) noexcept : lock_(lock) {
            if (lock_ != nullptr) {
                lock_->owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
            }
        }

        ProgressLock* lock_;
    };

    /// Not from a thread that holds it.
    [[nodiscard]] Hold take() {
        mutex_.lock();
        return Hold(this);
    }
    /// False where another thread holds it.
    [[nodiscard]] Hold try_take() { return Hold(mutex_.try_lock() ? this : nullptr); }

    /// Whether the calling thread holds it: it is in a callback of the engine.
    [[nodiscard]] bool is_mine() const noexcept {
        return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }

private:
    std::mutex mutex_;
    std::atomic<std::thread::id> owner_;
};

}  // namespace hvd::rt
