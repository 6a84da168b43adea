// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/transport/shm/local_group.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/control/payload.hpp"
#include "runtime/control/shm_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hvd::rt {

/// Rounds of proposals: the way of operations that callers of all ranks wait for. When nothing of
/// the world is open on any rank, each writes the ids that it wants into its own cache line and
/// reads the others'. If all are equal, they are ready, and the next round begins: one cache line's
/// flight. A slot that differs, or one that refuses, refuses the round for all; the ids are then
/// ready by their bits, and the next batch of the world in the log begins the next round. A small
/// input travels along, so that an accepted round has exchanged all inputs too.
///
/// A round's outcome is the same for all ranks, whenever they look:
///  - slots are written once and stay until the round after the next;
///  - a rank with anything of the world open never proposes, and neither does one that has joined,
///    so an accepted round finds nothing open anywhere;
///  - a batch of the world in the log had something open on every rank, so none of them was in an
///    accepted round.
///
/// A rank reads the others' payloads once it sees that the round is accepted, before it publishes
/// anything else. None of them can have been written over by then: the memory is used again two
/// rounds later, and no round ends before every rank has published something in it, or has had
/// something of the world open that a batch of the log ended, which a rank does only once it has
/// left the round before.
///
/// Thread: progress lock.
class ShmRounds {
public:
    /// The referenced objects outlive this one.
    ShmRounds(coll::LocalGroup& group, std::span<RankPage> pages);

    /// See Channel.
    [[nodiscard]] bool propose(std::span<const std::uint32_t> ids,
                               std::span<const std::byte> payload,
                               OwnPart own);
    [[nodiscard]] Proposal outcome();
    [[nodiscard]] std::span<const std::byte* const> payloads() const noexcept { return payloads_; }
    void refuse();
    [[nodiscard]] std::vector<int> missing() const;
    [[nodiscard]] int awaited() const noexcept { return awaited_; }
    void begin_next() noexcept;

    /// Fetches the memory of the next payload, off the critical path of the next operation.
    void prepare_next() noexcept {
        if (long_bytes_ != 0 && !is_proposing_) {
            take_payload_lines();
        }
    }

    /// Around a sleep: a proposer is woken by each rank that publishes something in its round.
    void about_to_sleep();
    void awake() noexcept { mark_asleep(0); }

private:
    [[nodiscard]] RoundSlot& slot_of(int rank) const noexcept {
        return pages_[static_cast<std::size_t>(rank)].rounds[round_ & 1];
    }
    void publish(std::uint64_t tag, std::uint64_t fingerprint, std::size_t payload_bytes);
    [[nodiscard]] std::byte* long_payload_of(int rank) const noexcept {
        return pages_[static_cast<std::size_t>(rank)].payloads[round_ & 1].data();
    }
    void find_payloads() noexcept;
    void take_payload_lines() noexcept;
    void mark_asleep(std::uint32_t asleep) noexcept;

    coll::LocalGroup& group_;
    std::span<RankPage> pages_;
    int rank_;
    std::uint64_t round_ = 1;
    bool has_published_ = false;  // in this round
    bool is_proposing_ = false;   // and waits for the outcome
    int awaited_ = -1;            // a rank that was missing when this one slept last
    std::uint64_t proposed_ = 0;  // fingerprint
    std::size_t long_bytes_ = 0;  // of this rank's last payload outside of its slot
    std::vector<Payload> kept_;   // what was in the slots of the round accepted last, by rank
    std::vector<const std::byte*> payloads_;  // of that round, by rank
};

}  // namespace hvd::rt
