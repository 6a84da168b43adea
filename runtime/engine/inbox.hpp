// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/base/unique_fd.hpp"

#include <atomic>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <sys/eventfd.h>

namespace hvd::rt {

/// The way into the engine: many producers, one consumer.
///
/// `push` and `wake` may be called from any thread; `take` and `drain` by the holder of the
/// progress lock alone. The engine sleeps on `descriptor` together with its sockets and peers, so
/// the inbox has a file. It is only written while `set_asleep` says that an item would be missed
/// otherwise.
template <class Item>
class Inbox {
public:
    /// Throws Exception when the process is out of descriptors.
    Inbox() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (!event_) {
            throw Exception({Errc::unavailable, "eventfd: too many open files"});
        }
    }

    void push(std::span<const Item> items) {
        {
            const std::lock_guard lock(mutex_);
            items_.insert(items_.end(), items.begin(), items.end());
        }
        // Either this thread sees `asleep`, or the consumer, which looks once more after it has
        // set it, sees `full`.
        full_.store(true, std::memory_order_seq_cst);
        // Of many producers the first one wakes it.
        if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) {
            wake();
        }
    }

    /// Appends everything that arrived, oldest first. Never blocks.
    void take(std::vector<Item>& items) {
        if (!full_.load(std::memory_order_seq_cst)) {
            return;
        }
        const std::lock_guard lock(mutex_);
        full_.store(false, std::memory_order_relaxed);
        items.insert(items.end(), items_.begin(), items_.end());
        items_.clear();
    }

    [[nodiscard]] bool is_full() const noexcept { return full_.load(std::memory_order_seq_cst); }

    /// Whether the consumer looks into the inbox only when it is woken.
    void set_asleep(bool asleep) noexcept {
        if (asleep) {
            asleep_.store(true, std::memory_order_seq_cst);
        } else {
            asleep_.store(false, std::memory_order_relaxed);  // seen late, it wakes in vain
        }
    }

    /// Readable from `wake` until `drain`; for epoll.
    [[nodiscard]] int descriptor() const noexcept { return event_.get(); }
    void wake() noexcept { (void)eventfd_write(event_.get(), 1); }
    void drain() noexcept {
        eventfd_t count = 0;
        (void)eventfd_read(event_.get(), &count);
    }

private:
    UniqueFd event_;
    std::atomic<bool> asleep_{false};
    std::atomic<bool> full_{false};
    std::mutex mutex_;
    std::vector<Item> items_;  // guarded by mutex_
};

}  // namespace hvd::rt
