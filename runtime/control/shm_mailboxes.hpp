// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/process_set.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "runtime/control/byte_ring.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/control/shm_layout.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// The messages between the coordinator, which is rank 0, and each rank: announcements one way,
/// decisions the other. A message may be longer than the ring that it crosses, and its reader may
/// sleep: what does not fit waits here and is sent by `flush`.
///
/// Thread: progress lock.
class ShmMailboxes {
public:
    /// The referenced objects outlive this one.
    ShmMailboxes(coll::LocalGroup& group, std::span<RankPage> pages);

    [[nodiscard]] bool coordinates() const noexcept { return rank_ == 0; }

    void send_announcement(std::vector<std::byte> message);

    /// The next decision for this rank. Errors: internal.
    [[nodiscard]] Result<std::optional<std::vector<std::byte>>> next_decision();

    /// Whether a part of a decision has come that `next_decision` has not taken yet.
    [[nodiscard]] bool has_decision_bytes() const noexcept { return decisions_.has_input(); }

    // Where this rank coordinates.
    [[nodiscard]] Result<std::optional<Channel::Heard>> next_announcement();
    void send_decision(const coll::ProcessSet& readers, const std::vector<std::byte>& message);

    /// True if something moved.
    [[nodiscard]] bool flush();

    /// Whether a decision for the rank waits for room.
    [[nodiscard]] bool has_output_for(int rank) const noexcept {
        return coordinates() && to_ranks_[static_cast<std::size_t>(rank)].is_waiting();
    }

    /// Whether something waits for room.
    [[nodiscard]] bool has_output() const noexcept { return output_waits_; }

private:
    [[nodiscard]] bool flush_decisions();

    coll::LocalGroup& group_;
    int rank_;
    RingWriter announcements_;
    RingReader decisions_;
    std::deque<std::vector<std::byte>> own_announcements_;  // where this rank coordinates
    std::deque<std::vector<std::byte>> own_decisions_;      // likewise
    std::vector<RingReader> from_ranks_;                    // likewise, by rank
    std::vector<RingWriter> to_ranks_;                      // likewise
    bool output_waits_ = false;
    std::size_t next_rank_ = 0;  // whose announcements are looked at next
};

}  // namespace hvd::rt
