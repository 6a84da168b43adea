// SPDX-License-Identifier: Apache-2.0
//
// The control segment of the ranks of one host. All zero is the state in which a world begins.
#pragma once

#include "runtime/control/byte_ring.hpp"
#include "runtime/control/payload.hpp"
#include "runtime/control/shared_atomic.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include <sched.h>

namespace hvd::rt {

inline constexpr std::size_t kLogEntries = 4096;
inline constexpr std::size_t kSharedIds = std::size_t{1} << 16;

/// The proposal that a rank publishes in one round: one cache line, or two where the payload is
/// longer than 40 bytes, because CPUs fetch lines in pairs. Written once, the tag last. A payload
/// of more than Payload::kMostBytes lies in the rank's page.
struct alignas(128) RoundSlot {
    SharedAtomic<std::uint64_t> tag;            // round and kind; see ShmRounds
    SharedAtomic<std::uint64_t> fingerprint;    // of the proposed ids
    SharedAtomic<std::uint32_t> is_asleep;      // the proposer sleeps: notify it
    SharedAtomic<std::uint32_t> payload_bytes;  // the last word is padded
    std::array<SharedAtomic<std::uint64_t>, Payload::kWords> payload;
};
static_assert(sizeof(RoundSlot) == 128);

/// The memory that one rank writes and all others read.
struct alignas(4096) RankPage {
    std::array<RoundSlot, 2> rounds;                // odd and even ones
    alignas(128) SharedAtomic<std::uint64_t> read;  // log entries
    SharedAtomic<std::uint32_t> is_urged;           // somebody has woken it to read on
    alignas(128) SharedAtomic<std::uint32_t> left;  // 0, or how: see Departure
    SharedAtomic<std::uint32_t> has_cpus;
    cpu_set_t cpus;           // where it may run; valid once has_cpus is set
    ByteRing to_coordinator;  // announcements
    ByteRing from_coordinator;
    /// Of odd and even rounds: payloads that are too long for a slot. Written before the slot's
    /// tag.
    alignas(4096) std::array<std::array<std::byte, kMostPayloadBytes>, 2> payloads;
};

/// How and when a rank left, in one word.
struct Departure {
    bool finished = false;    // it had done its part of everything that was agreed
    std::uint32_t order = 0;  // from 1: a rank that left earlier has the lower one

    [[nodiscard]] std::uint32_t word() const noexcept { return (order << 1) | (finished ? 1 : 0); }
    [[nodiscard]] static Departure from(std::uint32_t word) noexcept {
        return {.finished = (word & 1) != 0, .order = word >> 1};
    }
};

/// The log: a ring of entries that all ranks read in the same order and any may append to.
struct SharedLog {
    alignas(128) SharedAtomic<std::uint64_t> reserved;  // entries, ever
    alignas(128) SharedAtomic<std::uint32_t> is_full;   // somebody waits for room
    alignas(128) std::array<SharedAtomic<std::uint64_t>, kLogEntries> entries;
};

struct alignas(4096) SharedControl {
    SharedLog log;
    alignas(128) SharedAtomic<std::uint32_t> departures;  // ranks that have left
    alignas(
        128) std::array<SharedAtomic<std::uint32_t>,
                        kSharedIds> ready_counts;  // members that have set the ready bit of an id
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace hvd::rt
