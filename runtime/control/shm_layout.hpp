// SPDX-License-Identifier: Apache-2.0
//
// The control segment of the ranks of one host. All zero is the state in which a world begins.
#pragma once

#include "runtime/control/byte_ring.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <sched.h>

namespace hvd::rt {

inline constexpr std::size_t kLogEntries = 4096;
inline constexpr std::size_t kSharedIds = std::size_t{1} << 16;

/// What a rank says in one round: one cache line, written once, payload before tag.
struct alignas(128) Head {
    std::atomic<std::uint64_t> tag;          // round and kind; see ShmChannel
    std::atomic<std::uint64_t> fingerprint;  // of the proposed ids
    std::atomic<std::uint32_t> asleep;       // the proposer sleeps: ring
};

/// What one rank writes for all others to read.
struct alignas(4096) RankPage {
    std::array<Head, 2> heads;                         // of odd and even rounds
    alignas(128) std::atomic<std::uint64_t> consumed;  // log entries
    alignas(128) std::atomic<std::uint32_t> left;      // 0, or how: see Departure
    std::atomic<std::uint32_t> has_cpus;
    cpu_set_t cpus;           // where it may run; valid once has_cpus is set
    ByteRing to_coordinator;  // announcements
    ByteRing from_coordinator;
};

/// How and when a rank left, in one word.
struct Departure {
    bool finished = false;    // it had done its part of everything that was agreed
    std::uint32_t order = 0;  // from 1: who left earlier has the lower one

    [[nodiscard]] std::uint32_t word() const noexcept { return (order << 1) | (finished ? 1 : 0); }
    [[nodiscard]] static Departure from(std::uint32_t word) noexcept {
        return {.finished = (word & 1) != 0, .order = word >> 1};
    }
};

/// The execution log: a ring of entries that all ranks read in the same order and any may append
/// to.
struct SharedLog {
    alignas(128) std::atomic<std::uint64_t> reserved;  // entries, ever
    alignas(128) std::atomic<std::uint32_t> starved;   // somebody waits for room
    alignas(128) std::array<std::atomic<std::uint64_t>, kLogEntries> entries;
};

struct alignas(4096) SharedControl {
    SharedLog log;
    alignas(128) std::atomic<std::uint32_t> departures;  // ranks that have left
    alignas(
        128) std::array<std::atomic<std::uint32_t>, kSharedIds> marks;  // ranks that marked an id
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace hvd::rt
