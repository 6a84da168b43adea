// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/process_set.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "runtime/control/shm_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace hvd::rt {

/// One entry of the log in shared memory.
struct LogWord {
    enum class Kind : std::uint32_t { decision, invalidation, ready, left };

    static constexpr std::uint32_t kNumberBits = 28;

    Kind kind = Kind::ready;
    bool more = false;         // the batch, or what was decided together, goes on
    bool of_world = false;     // ready: the ids are the world's
    std::uint32_t number = 0;  // a process set (decision), a cache id, or a rank (left)
    int writer = 0;            // the rank that has appended it; not in `bits`

    [[nodiscard]] std::uint32_t bits() const noexcept {
        return (static_cast<std::uint32_t>(kind) << 30) | (more ? 1U << 29 : 0) |
               (of_world ? 1U << kNumberBits : 0) | number;
    }
    [[nodiscard]] static LogWord from(std::uint32_t bits) noexcept {
        return {.kind = static_cast<Kind>(bits >> 30),
                .more = (bits & (1U << 29)) != 0,
                .of_world = (bits & (1U << kNumberBits)) != 0,
                .number = bits & ((1U << kNumberBits) - 1)};
    }
};

/// The ranks' common log: a ring in shared memory that every rank reads from its own position.
///
/// Appending wakes the members of the set that an entry is for, if they sleep. A rank that expects
/// nothing sleeps on, and keeps room from the others: once the ring is half full, ranks that are
/// behind are woken to read on, once each, whether they expect anything or not.
///
/// Thread: progress lock.
class ShmLog {
public:
    /// Longer batches must be cut: the log must be able to take one at once.
    static constexpr std::size_t kLongestBatch = kLogEntries / 4;

    /// The referenced objects outlive the log.
    ShmLog(coll::LocalGroup& group, SharedLog& log, std::span<RankPage> pages);

    /// Appends all or, where there is no room, nothing (false). Room is then announced by a
    /// wake-up.
    [[nodiscard]] bool append(std::span<const std::uint32_t> entries,
                              const coll::ProcessSet& readers);

    /// Whether all ranks that have not left have read so far that another entry fits. If not, as
    /// append.
    [[nodiscard]] bool has_room_for_one();

    /// The next entry, if there is one.
    [[nodiscard]] std::optional<LogWord> read();

private:
    [[nodiscard]] RankPage& page(int rank) const noexcept {
        return pages_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] bool has_room(std::uint64_t position, std::size_t count);
    [[nodiscard]] bool find_room(std::uint64_t position, std::size_t count);
    [[nodiscard]] bool has_followers(std::uint64_t end) const noexcept;
    void urge_laggards(std::uint64_t position);
    void announce_room() noexcept;

    coll::LocalGroup& group_;
    SharedLog& log_;
    std::span<RankPage> pages_;
    int rank_;
    std::uint64_t position_ = 0;  // of this rank
    bool made_room_ = false;      // and has not looked whether somebody waits for it
    std::uint64_t slowest_ = 0;   // a rank's position, not beyond the real one
};

}  // namespace hvd::rt
