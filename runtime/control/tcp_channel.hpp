// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/failure_detector.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/control/control_frames.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// The channel of ranks on any hosts. Rank 0 coordinates, and gives all events their one order: it
/// hears what every rank announces and marks, counts the marks, and tells everybody the same
/// sequence. Nobody else has a link with any other. A rank that leaves says so, so that the end of
/// its link is no surprise; that it has left counts from its place in the sequence on. Rank 0 tells
/// the others at once whose link has ended without that; its own end they see themselves.
class TcpChannel final : public Channel {
public:
    /// `mesh` outlives the channel; its control links are the channel's alone. `local_size`: how
    /// many ranks share this host. `news`, which outlives the channel too, tells of ranks that are
    /// gone though their connections are open or silent; null where there is nobody to tell.
    TcpChannel(coll::net::Mesh& mesh, int local_size, coll::FailureDetector* news = nullptr);

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
    /// How a peer stands.
    struct Member {
        FrameReader in;
        std::vector<std::byte> out;  // not taken by the link yet
        std::size_t out_taken = 0;   // of `out`
        bool has_said_goodbye = false;
        bool is_gone = false;  // noticed
    };
    /// A peer that has left, in the sequence.
    struct Departure {
        int rank = -1;
        bool finished = false;
    };
    /// The marks of one id, where this rank coordinates.
    struct Count {
        int marks = 0;
        std::uint64_t since = 0;  // events before the id was given to its unit
    };

    [[nodiscard]] bool coordinates() const noexcept { return rank_ == 0; }
    /// Of the ranks with which this one has a link, the first, and the one behind the last.
    [[nodiscard]] int first_peer() const noexcept { return coordinates() ? 1 : 0; }
    [[nodiscard]] int end_peer() const noexcept { return coordinates() ? size_ : 1; }
    [[nodiscard]] bool pump();
    [[nodiscard]] bool pump_in(int peer);
    [[nodiscard]] bool pump_out(int peer);
    [[nodiscard]] bool has_output() const noexcept;
    void take(int peer, frame::Any message);
    void take_leave(int peer, const frame::Leave& leave);
    void count(std::span<const std::uint32_t> ids, std::uint64_t heard);
    void send(int peer, const frame::Any& message);
    void send_to_all(const frame::Any& message);
    void publish(const frame::Any& message);
    void receive_event(frame::Any message);
    void lose(int peer);
    void hear_news();
    void lose_by_news(const coll::PeerFailure& loss);
    void set_lost(int peer, Error error);
    [[nodiscard]] Error death_of(int peer) const;

    coll::net::Mesh& mesh_;
    int rank_;
    int size_;
    bool crowded_;
    coll::FailureDetector* news_;
    coll::Reactor* outer_ = nullptr;
    bool is_watched_ = false;

    std::vector<Member> members_;  // by rank
    std::deque<ChannelEvent> events_;
    std::uint64_t polled_ = 0;     // events that the caller has seen
    std::uint64_t published_ = 0;  // events, where this rank coordinates
    std::vector<Count> counts_;    // by id, likewise
    std::deque<Heard> heard_;      // likewise

    std::vector<Departure> departed_;  // in the order of the sequence
    std::optional<Trouble> lost_;
    std::optional<Error> broken_;
};

}  // namespace hvd::rt
