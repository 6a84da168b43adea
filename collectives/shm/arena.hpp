// SPDX-License-Identifier: Apache-2.0
//
// The shared memory of a process set as the schedules see it: for every member flags that only this
// member raises, and slots. Each protocol has its own slots and its own sequence, which never goes
// back and is never reset, so that a late reader cannot take an old value for a new one.
//
//   tiny    payload and sequence number in one cache line, two lines in turn
//   small   two slots in turn, every member reads those of all
//   swap    large allreduce and reducescatter: the owner of a slice reads it from all slots, and
//           of an allreduce leaves the result there
//   gather  collectives that only move bytes
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

/// The memory that one member writes. Others write into its swap slots only.
struct alignas(4096) RankArea {
    std::array<TinyLine, 2> tiny;
    Flag small_filled;
    Flag swap_filled;
    Flag swap_reduced;
    Flag gather_filled;
    Flag gather_drained;
    Flag reads_peers;                                      // see DirectReads
    alignas(2 * kLineBytes) std::uint64_t process_number;  // see RemoteProcess
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

/// Thread: progress lock.
class Arena {
public:
    /// Of the world, which is the group: all others are notified. The group outlives the arena.
    Arena(LocalGroup& group, std::span<RankArea> areas);

    /// Of a set of ranks of the group; `local_ranks` are those that are notified.
    Arena(LocalGroup& group, std::span<RankArea> areas, int place, std::vector<int> local_ranks);

    [[nodiscard]] int place() const noexcept { return place_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] RankArea& area(int place) const noexcept {
        return areas_[static_cast<std::size_t>(place)];
    }
    [[nodiscard]] RankArea& own() const noexcept { return area(place_); }

    /// Tells the others that this rank has come so far. They are woken by the next
    /// `notify_if_owed`.
    void raise(Flag& flag, std::uint64_t value) noexcept {
        flag.value.store(value, std::memory_order_release);
        owes_notify_ = true;
    }
    void raise(TinyLine& line, std::uint32_t sequence) noexcept {
        line.sequence.store(sequence, std::memory_order_release);
        owes_notify_ = true;
    }

    /// Whether all others have raised their flag to `value`.
    template <class Select>
    [[nodiscard]] bool have_all(std::uint64_t value, Select select) const noexcept {
        for (int peer = 0; peer < size_; ++peer) {
            if (peer != place_ &&
                select(area(peer)).value.load(std::memory_order_acquire) < value) {
                return false;
            }
        }
        return true;
    }

    /// The places of the others that have not raised their flag to `value`, ascending.
    template <class Select>
    [[nodiscard]] std::vector<int> behind(std::uint64_t value, Select select) const {
        std::vector<int> places;
        for (int peer = 0; peer < size_; ++peer) {
            if (peer != place_ &&
                select(area(peer)).value.load(std::memory_order_acquire) < value) {
                places.push_back(peer);
            }
        }
        return places;
    }

    /// The same of those that have not begun what goes through the gather slots from the sequence
    /// number `base` on. One that is there may not fill while another drains what was before.
    [[nodiscard]] std::vector<int> missing_in_gather(std::uint64_t base) const {
        auto places =
            behind(base, [](RankArea& area) -> const Flag& { return area.gather_drained; });
        return !places.empty() ? places : behind(base + 1, [](RankArea& area) -> const Flag& {
            return area.gather_filled;
        });
    }

    /// Wakes who sleeps, if a flag was raised since the last call. It waits until the flag is out
    /// of this CPU, so it comes after the next useful step rather than at once.
    void notify_if_owed() noexcept {
        if (owes_notify_) {
            owes_notify_ = false;
            notify();
        }
    }
    [[nodiscard]] bool owes_notify() const noexcept { return owes_notify_; }

    /// Takes steps while one can be taken, but not so many that other sets wait for long: this rank
    /// is then woken at once if it goes to sleep.
    template <class Step>
    void take_steps(Step step) noexcept(noexcept(step())) {
        constexpr int kStepsAtOnce = 64;  // less than a millisecond
        for (int taken = 0; taken < kStepsAtOnce; ++taken) {
            if (!step()) {
                return;
            }
        }
        group_.notify_self();
    }

    Sequences sequences;
    std::optional<Error> cause;  // why everything fails, once it does

    /// One address for each member, for the reducing Work: kept here so that no operation
    /// allocates memory for them.
    std::vector<const std::byte*> addresses;

private:
    void notify() noexcept {
        if (is_world_) {
            group_.notify_others();
            return;
        }
        for (const int rank : local_ranks_) {
            group_.notify(rank);
        }
    }

    LocalGroup& group_;
    std::span<RankArea> areas_;
    int place_;
    int size_;
    bool is_world_;
    std::vector<int> local_ranks_;  // of the other members
    bool owes_notify_ = false;
};

}  // namespace hvd::coll::shm
