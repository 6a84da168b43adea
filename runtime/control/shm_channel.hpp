// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/transport/shm/local_group.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/control/group_sleep.hpp"
#include "runtime/control/shm_log.hpp"
#include "runtime/control/shm_mailboxes.hpp"
#include "runtime/control/shm_rounds.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// The channel of ranks that share a host. Rank 0 coordinates.
///
/// A steady step in the background: a rank adds one to the shared counter of each id; the member
/// that completes a counter appends the id to the log, which all ranks read. No string and no
/// coordinator is involved. Awaited operations of the world take a shorter way; see ShmRounds.
class ShmChannel final : public Channel {
public:
    /// Bytes of shared memory for `ranks`.
    [[nodiscard]] static std::size_t segment_bytes(int ranks);

    /// Different ids that it can count.
    [[nodiscard]] static constexpr std::size_t id_count() { return kSharedIds; }
    /// Log entries after which no rank can still use a retired id: the log cannot hold both.
    [[nodiscard]] static constexpr std::size_t quarantine() { return kLogEntries; }

    /// `group` outlives the channel; its segment number `segment` is the channel's alone. `host` is
    /// for messages.
    ShmChannel(coll::LocalGroup& group, std::size_t segment, std::string host);

    void add_set(const coll::ProcessSet& set) override;
    void remove_set(int id) override;
    void announce(std::vector<std::byte> message) override;
    [[nodiscard]] bool set_ready(std::span<const std::uint32_t> ids,
                                 const coll::ProcessSet& set) override;
    [[nodiscard]] bool propose(std::span<const std::uint32_t> ids,
                               std::span<const std::byte> payload,
                               OwnPart own) override;
    [[nodiscard]] Proposal proposal() override;
    [[nodiscard]] std::size_t payload_limit() const noexcept override { return kMostPayloadBytes; }
    [[nodiscard]] std::span<const std::byte* const> payloads() const noexcept override {
        return rounds_.payloads();
    }
    [[nodiscard]] std::vector<int> missing_in_round() const override { return rounds_.missing(); }
    [[nodiscard]] int awaited_in_round() const noexcept override { return rounds_.awaited(); }
    void refuse_round() override;
    void next_round() override;
    [[nodiscard]] Result<std::optional<ChannelEvent>> poll() override;
    [[nodiscard]] bool flush() override;
    [[nodiscard]] Result<std::optional<Heard>> next_announcement() override;
    void append_decision(const coll::ProcessSet& set,
                         std::vector<std::byte> message,
                         std::uint32_t id,
                         bool more) override;
    void append_invalidation(const coll::ProcessSet& set, std::uint32_t id) override;
    void watch(coll::Reactor& reactor) override;
    void about_to_sleep(bool expects) override;
    void awake() override;
    [[nodiscard]] std::optional<PeerFailure> peer_failure() override;
    void forgive_departure(int rank) override;
    [[nodiscard]] bool has_left_unfinished(int rank) const override;
    void announce_leave() override;
    [[nodiscard]] bool has_unsent() const override;
    void leave(bool finished) override;
    [[nodiscard]] std::string describe(int rank) const override;
    [[nodiscard]] bool is_oversubscribed() override;

private:
    /// Entries that wait for room in the log.
    struct Outgoing {
        std::vector<std::uint32_t> entries;
        coll::ProcessSet readers;
        std::uint32_t new_id = kNoNewId;  // whose counter begins at 0 with this entry
        std::vector<std::byte> message;   // of a decision; empty once it is on its way
    };
    static constexpr std::uint32_t kNoNewId = 0xffffffff;

    [[nodiscard]] RankPage& page(int rank) const noexcept {
        return pages_[static_cast<std::size_t>(rank)];
    }
    void append(Outgoing outgoing);
    [[nodiscard]] bool flush_log();
    [[nodiscard]] bool has_output() const noexcept {
        return !outgoing_.empty() || mailboxes_.has_output();
    }
    [[nodiscard]] std::optional<ChannelEvent> event_of(const LogWord& word);
    [[nodiscard]] std::optional<PeerFailure> find_dead();

    coll::LocalGroup& group_;
    std::string host_;
    int rank_;
    int size_;
    SharedControl& shared_;
    std::span<RankPage> pages_;

    ShmRounds rounds_;
    ShmLog log_;
    ShmMailboxes mailboxes_;
    std::map<int, coll::ProcessSet> sets_;  // but the world; those that exist here in the log
    coll::ProcessSet world_;

    GroupSleep sleep_;
    std::vector<std::uint32_t> ready_;  // of a batch whose end has not been read
    std::optional<LogWord> deciding_;   // an entry whose message has not come
    std::deque<Outgoing> outgoing_;     // in order
    std::vector<std::uint32_t> batch_;  // scratch

    std::vector<bool> is_forgiven_;  // by rank: its departure is no failure
    std::optional<PeerFailure> failure_;
    std::optional<bool> is_oversubscribed_;
};

}  // namespace hvd::rt
