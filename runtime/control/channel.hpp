// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a world tell each other what they are ready for. It moves bytes and short
// numbers and decides nothing; runtime/negotiation decides.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/reactor.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace hvd::rt {

/// What a channel hands out, in the same order on every rank.
namespace event {

/// The coordinator's next decision. Decisions up to one without `more` came together, so what they
/// make ready is ready together.
struct Decided {
    std::vector<std::byte> message;
    bool more = false;
};
/// The short name `id` has been taken back.
struct Invalidated {
    std::uint32_t id = 0;
};
/// Every rank has marked these ids since each was last ready. The order is the same on all ranks.
struct Ready {
    std::vector<std::uint32_t> ids;
};

}  // namespace event

using ChannelEvent = std::variant<event::Decided, event::Invalidated, event::Ready>;

/// What has become of a proposal.
enum class Proposal {
    waiting,   // not all ranks have spoken
    accepted,  // all ranks proposed the same: it is ready, now, on every rank
    refused,   // some rank does something else: mark the ids instead
};

/// Thread: baton. Nothing here blocks; what does not fit into shared memory waits inside.
/// Errors: once a method has failed, the world is broken.
class Channel {
public:
    virtual ~Channel() = default;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    /// Slow path: sends an encoded Announcement to the coordinator.
    virtual void announce(std::vector<std::byte> message) = 0;

    /// Says that this rank is ready for the ids. One call is one batch: what it makes ready is
    /// ready together on every rank. `more_open`: something else of this rank is open.
    virtual void mark(std::span<const std::uint32_t> ids, bool more_open) = 0;

    /// Offers `ids`, ascending, as the next thing to do for everybody. Only while nothing that this
    /// rank announced or marked is still open and no proposal of its own waits. Returns false when
    /// this is already known to be in vain; then nothing has been said, and the caller marks.
    [[nodiscard]] virtual bool propose(std::span<const std::uint32_t> ids) = 0;
    [[nodiscard]] virtual Proposal proposal() = 0;

    /// The next event, if there is one. Not while a proposal waits.
    [[nodiscard]] virtual Result<std::optional<ChannelEvent>> poll() = 0;

    /// Follows each Ready, and each Decided without `more`, once it has been handled. `open`:
    /// something that this rank announced or marked still is.
    virtual void next_round(bool open) = 0;

    /// Sends what had to wait inside. True if something moved.
    [[nodiscard]] virtual bool flush() = 0;

    /// Where the coordinator is: announcements of any rank, in turn, and the way to answer.
    struct Heard {
        int rank = 0;
        std::vector<std::byte> message;
    };
    [[nodiscard]] virtual Result<std::optional<Heard>> hear() = 0;
    virtual void decide(std::vector<std::byte> message, std::uint32_t id, bool more) = 0;
    virtual void invalidate(std::uint32_t id) = 0;

    /// Registers what may wake this rank: its bell, and the ends of its peers. The reactor outlives
    /// the channel's use.
    virtual void watch(coll::Reactor& reactor) = 0;

    /// Between these two nobody looks at the channel. A rank that `expects` something, because it
    /// is open or in flight, is woken by its peers; another one only for what it has to coordinate.
    /// After `about_to_sleep` the caller looks once more before it sleeps.
    virtual void about_to_sleep(bool expects) noexcept = 0;
    virtual void awake() noexcept = 0;

    /// Why this world cannot go on, if a peer is gone.
    struct Trouble {
        int peer = -1;
        Error error;
        bool in_flight = false;  // what is agreed will never end either
    };
    [[nodiscard]] virtual std::optional<Trouble> trouble() = 0;

    /// Tells the peers that this rank leaves. `finished`: it has done its part of everything that
    /// was agreed.
    virtual void leave(bool finished) noexcept = 0;

    /// Whether there are more ranks than processors for them.
    [[nodiscard]] virtual bool crowded() = 0;

protected:
    Channel() = default;
};

}  // namespace hvd::rt
