// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_log.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {
namespace {

// The upper half of an entry: the rank that has appended it, and the lap.
constexpr int kLapShift = 32;
constexpr int kWriterShift = 34;
constexpr std::uint64_t kLapMask = std::uint64_t{3} << kLapShift;

/// Tells an entry from that of the last lap at its place, and from none. No other entry can be
/// there: a place is written again only when all ranks have read it.
std::uint64_t lap_of(std::uint64_t position) noexcept {
    return (position / kLogEntries % 3 + 1) << kLapShift;
}

/// Such a rank reads no further.
bool has_left(const RankPage& page) noexcept {
    return page.left.load(std::memory_order_acquire) != 0;
}

}  // namespace

ShmLog::ShmLog(coll::LocalGroup& group, SharedLog& log, std::span<RankPage> pages)
    : group_(group), log_(log), pages_(pages), rank_(group.rank()) {}

bool ShmLog::has_room(std::uint64_t position, std::size_t count) {
    if (position + count - slowest_ <= kLogEntries) {
        return true;
    }
    slowest_ = position;
    for (const auto& other : pages_) {
        if (!has_left(other)) {
            slowest_ = std::min(slowest_, other.read.load(std::memory_order_acquire));
        }
    }
    return position + count - slowest_ <= kLogEntries;
}

/// Either the reader sees that a writer waits, or the writer sees the freed space: no wake-up is
/// lost.
bool ShmLog::find_room(std::uint64_t position, std::size_t count) {
    if (has_room(position, count)) {
        return true;
    }
    log_.is_full.store(1, std::memory_order_seq_cst);
    return has_room(position, count);
}

bool ShmLog::has_room_for_one() {
    return find_room(log_.reserved.load(std::memory_order_relaxed), 1);
}

bool ShmLog::append(std::span<const std::uint32_t> entries, const coll::ProcessSet& readers) {
    auto position = log_.reserved.load(std::memory_order_relaxed);
    do {
        if (!find_room(position, entries.size())) {
            urge_laggards(position);
            return false;
        }
    } while (!log_.reserved.compare_exchange_weak(position, position + entries.size(),
                                                  std::memory_order_acq_rel));
    const auto writer = static_cast<std::uint64_t>(rank_) << kWriterShift;
    for (const auto each : entries) {
        log_.entries[position % kLogEntries].store(writer | lap_of(position) | each,
                                                   std::memory_order_release);
        ++position;
    }
    // A rank that waits for an entry behind these may have seen them reserved and not written, and
    // sleep since, though it does not read them.
    if (readers.size() == group_.size() || has_followers(position)) {
        group_.notify_others();
    } else {
        for (const int rank : readers.ranks) {
            if (rank != rank_) {
                group_.notify(rank);
            }
        }
    }
    urge_laggards(position);
    return true;
}

/// Whether somebody has reserved entries behind `end` before all could see those up to it.
bool ShmLog::has_followers(std::uint64_t end) const noexcept {
    shared_fence();
    return log_.reserved.load(std::memory_order_relaxed) != end;
}

void ShmLog::urge_laggards(std::uint64_t position) {
    if (position - slowest_ <= kLogEntries / 2) {
        return;
    }
    slowest_ = position;
    for (int rank = 0; rank < group_.size(); ++rank) {
        auto& other = page(rank);
        if (has_left(other)) {
            continue;
        }
        const auto read = other.read.load(std::memory_order_acquire);
        slowest_ = std::min(slowest_, read);
        if (rank != rank_ && position - read > kLogEntries / 2 &&
            other.is_urged.exchange(1, std::memory_order_acq_rel) == 0) {
            group_.notify_always(rank);
        }
    }
}

std::optional<LogWord> ShmLog::read() {
    auto& own = page(rank_);
    const auto& entry = log_.entries[position_ % kLogEntries];
    // Taken back before the last look: a writer that has found the note there, and notifies nobody,
    // has written before.
    if (own.is_urged.load(std::memory_order_relaxed) != 0) {
        (void)own.is_urged.exchange(0, std::memory_order_acq_rel);
    }
    const auto word = entry.load(std::memory_order_acquire);
    if ((word & kLapMask) != lap_of(position_)) {
        announce_room();
        return std::nullopt;
    }
    own.read.store(++position_, std::memory_order_release);
    made_room_ = true;
    auto next = LogWord::from(static_cast<std::uint32_t>(word));
    next.writer = static_cast<int>(word >> kWriterShift);
    return next;
}

void ShmLog::announce_room() noexcept {
    if (!std::exchange(made_room_, false)) {
        return;
    }
    shared_fence();
    if (log_.is_full.load(std::memory_order_relaxed) != 0 &&
        log_.is_full.exchange(0, std::memory_order_acq_rel) != 0) {
        group_.notify_others();
    }
}

}  // namespace hvd::rt
