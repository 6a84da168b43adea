// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/failure_detector.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/control/control_connections.hpp"
#include "runtime/control/group_sleep.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// The channel of ranks on any hosts. Rank 0 coordinates, and gives the log its one order: every
/// rank sends it its announcements and the ready bits that it sets; it counts these, and sends the
/// entries of each set to its members. No other two ranks have a control connection. Entries carry
/// numbers, and a rank that sets ready bits names the last one it has read, so that a bit of an id
/// that has got another meaning since does not count.
///
/// A rank that leaves says goodbye, so that the end of its connection is no surprise. Rank 0 tells
/// the others at once of a connection that has ended without that; its own end they see themselves.
class TcpChannel final : public Channel {
public:
    /// `mesh` outlives the channel; its control connections are the channel's alone. `local_size`:
    /// how many ranks share this host. `detector`, which outlives the channel too, knows of ranks
    /// that are gone though their connections are open or silent; null where there is none.
    /// `group`: the ranks of this host that share memory, where there are several; it outlives the
    /// channel too.
    TcpChannel(coll::net::Mesh& mesh,
               int local_size,
               coll::FailureDetector* detector = nullptr,
               coll::LocalGroup* group = nullptr);

    void add_set(const coll::ProcessSet& /*set*/) override {}
    void remove_set(int /*id*/) override {}
    void announce(std::vector<std::byte> message) override;
    [[nodiscard]] bool set_ready(std::span<const std::uint32_t> ids,
                                 const coll::ProcessSet& set) override;
    [[nodiscard]] bool propose(std::span<const std::uint32_t> ids,
                               std::span<const std::byte> payload,
                               OwnPart own) override;
    [[nodiscard]] Proposal proposal() override;
    void refuse_round() override {}
    void next_round() override {}
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
    void leave(bool finished) override;
    [[nodiscard]] std::string describe(int rank) const override { return mesh_.describe(rank); }
    [[nodiscard]] bool is_oversubscribed() override { return is_oversubscribed_; }

private:
    /// An entry of the log for this rank.
    struct Entry {
        std::uint64_t number = 0;
        ChannelEvent event;
    };
    /// The ready bits of one id, where this rank coordinates.
    struct ReadyCount {
        int process_set = 0;
        int bits = 0;
        std::uint64_t since = 0;  // number of the entry that gave the id to its group
    };
    /// A peer that has left, in order.
    struct Departure {
        int rank = -1;
        bool finished = false;
    };

    [[nodiscard]] bool coordinates() const noexcept { return rank_ == 0; }
    void on_frame(int peer, frame::Any message);
    void receive(std::uint64_t number, ChannelEvent event);
    void on_goodbye(int peer, const frame::Goodbye& goodbye);
    void on_closed(int peer);
    void append_left(int rank);
    void count(int rank, std::span<const std::uint32_t> ids, std::uint64_t last);
    void append_ready(int set_id, int last_rank, std::vector<std::uint32_t> ids);
    void send_to(const coll::ProcessSet& readers, const frame::Any& message);
    void note_departure(int rank, bool finished);
    [[nodiscard]] bool is_forgiven(const Departure& departure) const;
    void read_detector();
    void on_detected(const coll::PeerFailure& failure);
    void set_lost(int peer, Error error);
    [[nodiscard]] Error death_of(int peer) const;

    coll::net::Mesh& mesh_;
    int rank_;
    int size_;
    bool is_oversubscribed_;
    coll::FailureDetector* detector_;
    coll::Reactor* outer_ = nullptr;
    bool is_watched_ = false;
    std::optional<GroupSleep> group_sleep_;  // collectives in memory of the host wake this rank
    ControlConnections connections_;

    std::deque<Entry> entries_;
    std::uint64_t last_read_ = 0;  // number of the last entry that the engine has seen

    // Where this rank coordinates.
    std::uint64_t appended_ = 0;            // entries of the log
    std::vector<ReadyCount> counts_;        // by id
    std::map<int, coll::ProcessSet> sets_;  // with which something was decided
    std::deque<Heard> announcements_;

    std::vector<bool> said_goodbye_;   // by rank
    std::vector<bool> is_forgiven_;    // by rank: its departure is no failure
    std::vector<Departure> departed_;  // in order
    std::optional<PeerFailure> failure_;
};

}  // namespace hvd::rt
