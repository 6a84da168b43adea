// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/transport/shm/local_group.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/control/shm_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// The channel of ranks that share a host. Rank 0 coordinates.
///
/// Steady step, in the background: a rank adds one to the shared counter of each id; the rank that
/// completes a counter appends the id to the execution log, which all ranks follow. No string and
/// no coordinator is involved.
///
/// Steady step, awaited: when nothing is open on any rank, each writes the ids that it wants into
/// its own cache line, its head of the round, and reads the others'. If all are equal, they are
/// ready, and the next round begins: one cache line's flight. A head that differs, or one that says
/// "background", refuses the round; its ids are then marked, and the next batch that the log makes
/// ready begins the next round. A round's outcome is the same for all ranks, whenever they look:
///  - heads are written once and stay until the round after the next;
///  - who has anything open never proposes, so an accepted round finds nothing open anywhere;
///  - a batch in the log had something open on every rank, so none of them was in an accepted
///  round.
class ShmChannel final : public Channel {
public:
    /// Bytes of shared memory for `ranks`.
    [[nodiscard]] static std::size_t segment_bytes(int ranks);

    /// Different ids that it can count.
    [[nodiscard]] static constexpr std::size_t id_count() { return kSharedIds; }
    /// Verdicts after which no rank can still use a retired id: the log cannot hold both.
    [[nodiscard]] static constexpr std::size_t quarantine() { return kLogEntries; }

    /// `group` outlives the channel; its segment number `segment` is the channel's alone. `host` is
    /// for messages.
    ShmChannel(coll::LocalGroup& group, std::size_t segment, std::string host);

    void announce(std::vector<std::byte> message) override;
    void mark(std::span<const std::uint32_t> ids, bool more_open) override;
    [[nodiscard]] bool propose(std::span<const std::uint32_t> ids) override;
    [[nodiscard]] Proposal proposal() override;
    [[nodiscard]] Result<std::optional<ChannelEvent>> poll() override;
    void next_round(bool open) override;
    [[nodiscard]] bool flush() override;
    [[nodiscard]] Result<std::optional<Heard>> hear() override;
    void decide(std::vector<std::byte> message, std::uint32_t id, bool more) override;
    void invalidate(std::uint32_t id) override;
    void watch(coll::Reactor& reactor) override;
    void about_to_sleep(bool expects) noexcept override;
    void awake() noexcept override;
    [[nodiscard]] std::optional<Trouble> trouble() override;
    void leave(bool finished) noexcept override;
    [[nodiscard]] bool crowded() override;

private:
    /// A verdict that waits for room in the log.
    struct Outgoing {
        std::uint32_t entry = 0;
        std::uint32_t id = kNoShared;
        std::vector<std::byte> message;  // of a decision
        bool sent = false;               // the message is on its way
    };
    static constexpr std::uint32_t kNoShared = 0xffffffff;

    [[nodiscard]] RankPage& page(int rank) const noexcept {
        return pages_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] bool coordinates() const noexcept { return rank_ == 0; }
    [[nodiscard]] bool append(std::span<const std::uint32_t> entries);
    [[nodiscard]] bool has_room(std::uint64_t position, std::size_t count);
    [[nodiscard]] bool finds_room(std::uint64_t position, std::size_t count);
    void wake_starved() noexcept;
    void speak(std::uint64_t tag, std::uint64_t fingerprint);
    void publish_background();
    [[nodiscard]] bool flush_verdicts();
    [[nodiscard]] bool flush_answers();
    [[nodiscard]] bool flush_ready();
    [[nodiscard]] Result<std::optional<std::vector<std::byte>>> next_decision();
    [[nodiscard]] std::optional<Trouble> find_dead();

    coll::LocalGroup& group_;
    std::string host_;
    int rank_;
    int size_;
    SharedControl& shared_;
    std::span<RankPage> pages_;

    std::uint64_t round_ = 1;
    bool spoken_ = false;    // in this round
    bool proposed_ = false;  // and wait for the outcome
    std::uint64_t proposed_fingerprint_ = 0;

    bool sleep_announced_ = false;  // peers ring

    std::uint64_t position_ = 0;             // in the log
    bool made_room_ = false;                 // in the log
    std::uint64_t slowest_ = 0;              // a rank's position, not beyond the real one
    std::vector<std::uint32_t> ready_;       // of a batch whose end has not been read
    std::optional<std::uint32_t> deciding_;  // an entry whose message has not come
    std::deque<std::vector<std::uint32_t>> late_ready_;  // batches that wait for room in the log
    std::deque<Outgoing> verdicts_;
    std::vector<std::uint32_t> completed_;  // scratch

    RingWriter announcements_;
    RingReader decisions_;
    std::deque<std::vector<std::byte>> own_announcements_;  // where this rank coordinates
    std::deque<std::vector<std::byte>> own_decisions_;
    std::vector<RingReader> heard_;    // by rank, where this rank coordinates
    std::vector<RingWriter> answers_;  // likewise
    bool answers_wait_ = false;        // for room in a ring
    std::size_t next_heard_ = 0;

    std::optional<Trouble> lost_;
    std::optional<bool> crowded_;
};

}  // namespace hvd::rt
