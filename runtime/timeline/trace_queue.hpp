// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/timeline/trace_event.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hvd::rt {

/// From the holder of the progress lock to the writer's thread: a ring that is never waited for.
class TraceQueue {
public:
    explicit TraceQueue(std::size_t capacity) : ring_(capacity) {}

    /// Thread: producer. False where there is no room.
    [[nodiscard]] bool push(TraceEvent&& event) {
        if (room() == 0) {
            return false;
        }
        ring_[head_ % ring_.size()] = std::move(event);
        published_.store(++head_, std::memory_order_release);
        return true;
    }

    /// Thread: producer.
    [[nodiscard]] std::size_t room() noexcept {
        // The reader's line is looked at only when there seems to be little room.
        if (ring_.size() - (head_ - seen_tail_) < ring_.size() / 2) {
            seen_tail_ = taken_.load(std::memory_order_acquire);
        }
        return ring_.size() - (head_ - seen_tail_);
    }

    /// Thread: consumer. Hands each event that there is to `take`.
    template <class Take>
    std::size_t drain(Take take) {
        const auto end = published_.load(std::memory_order_acquire);
        auto at = taken_.load(std::memory_order_relaxed);
        const auto count = end - at;
        for (; at != end; ++at) {
            take(std::as_const(ring_[at % ring_.size()]));
            taken_.store(at + 1, std::memory_order_release);
        }
        return count;
    }

    /// Thread: any.
    [[nodiscard]] std::uint64_t published() const noexcept {
        return published_.load(std::memory_order_acquire);
    }

private:
    std::vector<TraceEvent> ring_;
    std::uint64_t head_ = 0;       // producer
    std::uint64_t seen_tail_ = 0;  // producer; not beyond taken_
    alignas(64) std::atomic<std::uint64_t> published_{0};
    alignas(64) std::atomic<std::uint64_t> taken_{0};
};

}  // namespace hvd::rt
