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

/// The only door into the engine: many producers, one consumer.
///
/// `push` and `wake` may be called from any thread; `take` and `hush` by the holder of the baton
/// alone. The engine sleeps on `descriptor` together with its sockets and peers, so the door is a
/// file. It is only written while `set_asleep` says that somebody would miss the item otherwise.
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
        // Either we see `asleep`, or the consumer, who looks once more after it said so, sees
        // `full`.
        full_.store(true, std::memory_order_seq_cst);
        // Of many producers the first one rings.
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

    /// Whether nobody will look into the inbox before it is woken.
    void set_asleep(bool asleep) noexcept { asleep_.store(asleep, std::memory_order_seq_cst); }

    /// Readable from `wake` until `hush`; for epoll.
    [[nodiscard]] int descriptor() const noexcept { return event_.get(); }
    void wake() noexcept { (void)eventfd_write(event_.get(), 1); }
    void hush() noexcept {
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
