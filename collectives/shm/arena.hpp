// SPDX-License-Identifier: Apache-2.0
//
// The shared segment as the schedules see it: for every rank flags that only this rank raises, and
// slots. Each protocol has slots and a sequence of its own; none ever goes back or is reset, so
// that a late reader cannot take an old value for a new one.
//
//   tiny    payload and sequence number in one cache line, two lines in turn
//   small   two slots in turn, everybody reads everybody's
//   swap    large allreduce: the owner of a slice leaves the result in the slots it read
//   gather  large allgather and broadcast
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hvd::coll::shm {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kTinyBytes = 60;
inline constexpr std::size_t kSmallBytes = 4096;
inline constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
inline constexpr std::size_t kSmallSlots = 2;
inline constexpr std::size_t kChunkSlots = 4;

struct alignas(kLineBytes) TinyLine {
    std::array<std::byte, kTinyBytes> payload;
    std::atomic<std::uint32_t> sequence;
};
static_assert(sizeof(TinyLine) == kLineBytes);

/// Two lines, because CPUs fetch lines in pairs.
struct alignas(2 * kLineBytes) Flag {
    std::atomic<std::uint64_t> value;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

using Chunk = std::array<std::byte, kChunkBytes>;

/// What one rank writes. Only its swap slots are written by others, too.
struct alignas(4096) RankArea {
    std::array<TinyLine, 2> tiny;
    Flag small_filled;
    Flag swap_filled;
    Flag swap_reduced;
    Flag gather_filled;
    Flag gather_drained;
    alignas(4096) std::array<std::array<std::byte, kSmallBytes>, kSmallSlots> small;
    std::array<Chunk, kChunkSlots> swap;
    std::array<Chunk, kChunkSlots> gather;
};

/// How many operations (tiny, small) or chunks (swap, gather) there have been: the same on all
/// ranks, because they start the same tasks in the same order.
struct Sequences {
    std::uint32_t tiny = 0;
    std::uint64_t small = 0;
    std::uint64_t swap = 0;
    std::uint64_t gather = 0;
};

/// Thread: baton.
class Arena {
public:
    /// The group must outlive the arena.
    Arena(LocalGroup& group, std::size_t segment);

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] RankArea& area(int rank) const noexcept {
        return areas_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] RankArea& own() const noexcept { return area(rank_); }

    /// Tells the others that this rank has come so far. They are woken by the next `ring`.
    void raise(Flag& flag, std::uint64_t value) noexcept {
        flag.value.store(value, std::memory_order_release);
        owes_ring_ = true;
    }
    void raise(TinyLine& line, std::uint32_t sequence) noexcept {
        line.sequence.store(sequence, std::memory_order_release);
        owes_ring_ = true;
    }

    /// Whether all others have raised their flag to `value`.
    template <class Select>
    [[nodiscard]] bool have_all(std::uint64_t value, Select select) const noexcept {
        for (int peer = 0; peer < size_; ++peer) {
            if (peer != rank_ && select(area(peer)).value.load(std::memory_order_acquire) < value) {
                return false;
            }
        }
        return true;
    }

    /// Wakes who sleeps, if a flag was raised since the last call. It waits until the flag is out
    /// of this CPU, so it comes after the next useful step rather than at once.
    void ring() noexcept {
        if (owes_ring_) {
            owes_ring_ = false;
            group_.notify_others();
        }
    }
    [[nodiscard]] bool owes_ring() const noexcept { return owes_ring_; }

    Sequences sequences;
    std::optional<Error> cause;  // why everything fails, once it does

    /// One address for each rank, for whoever reduces: room, so that no operation allocates it.
    std::vector<const std::byte*> addresses;

private:
    LocalGroup& group_;
    int rank_;
    int size_;
    std::span<RankArea> areas_;
    bool owes_ring_ = false;
};

}  // namespace hvd::coll::shm
