// SPDX-License-Identifier: Apache-2.0
//
// The control channel: ranks announce through it the operations they are ready for. It moves bytes
// and cache ids and decides nothing; runtime/negotiation decides.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/process_set.hpp"
#include "collectives/reactor.hpp"
#include "runtime/control/payload.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hvd::rt {

/// The events of a channel: the entries of one log for all process sets, in the same order on every
/// rank. A rank may be given entries of sets that it is not in.
namespace event {

/// The coordinator's next decision about a set. Decisions up to one without `more` came together,
/// so the operations that they make ready are ready together.
struct Decided {
    int process_set = 0;
    std::vector<std::byte> message;
    bool more = false;
};
/// The cache id has been taken back.
struct Invalidated {
    std::uint32_t id = 0;
};
/// Every member of one set has set the ready bits of these ids since each was last ready.
struct Ready {
    std::vector<std::uint32_t> ids;
    bool of_world = false;  // the set is the world
    int last_rank = -1;     // that has set its ready bits last; -1: not known
};
/// The rank leaves the world: of the sets that it is in, nothing that follows is executed.
struct Left {
    int rank = 0;
};

}  // namespace event

using ChannelEvent = std::variant<event::Decided, event::Invalidated, event::Ready, event::Left>;

/// The state of a proposal.
enum class Proposal {
    waiting,   // not all ranks have published anything
    accepted,  // all ranks proposed the same: it is ready, now, on every rank
    refused,   // some rank does something else: set the ready bits instead
};

/// Thread: progress lock. Nothing here blocks; what does not fit into shared memory or a socket
/// waits inside. Errors: once a method has failed, the world is broken.
class Channel {
public:
    virtual ~Channel() = default;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    /// A process set exists from here in the log on, until it is removed. The world always does.
    virtual void add_set(const coll::ProcessSet& set) = 0;
    virtual void remove_set(int id) = 0;

    /// Sends an encoded Announcement to the coordinator.
    virtual void announce(std::vector<std::byte> message) = 0;

    /// Sets this rank's ready bits of the ids, all of `set`. One call is one batch: what it makes
    /// ready is ready together on every rank. True where it has made all of them ready.
    [[nodiscard]] virtual bool set_ready(std::span<const std::uint32_t> ids,
                                         const coll::ProcessSet& set) = 0;

    // ---- rounds, for what callers of all ranks of the world wait for ----------------------------

    /// Offers `ids` of the world, ascending, as the next thing to do for everybody. Only while
    /// nothing of the world that this rank announced or set ready is open and no proposal of its
    /// own waits. Returns false when this is already known to be in vain; then nothing is
    /// published. `payload`, of at most `payload_limit()` bytes, travels along, but for its part
    /// `own`; whether there is one depends on the ids alone.
    [[nodiscard]] virtual bool propose(std::span<const std::uint32_t> ids,
                                       std::span<const std::byte> payload,
                                       OwnPart own) = 0;
    [[nodiscard]] virtual Proposal proposal() = 0;

    /// The most bytes that can travel in a proposal; 0 where none can.
    [[nodiscard]] virtual std::size_t payload_limit() const noexcept { return 0; }

    /// Once a proposal is accepted, until this rank calls anything by which it publishes something:
    /// where the payload of each rank is, in the order of the ranks, but for the part that it alone
    /// reads.
    [[nodiscard]] virtual std::span<const std::byte* const> payloads() const noexcept { return {}; }

    /// While a proposal of this rank waits: the ranks that have published nothing in its round,
    /// ascending.
    [[nodiscard]] virtual std::vector<int> missing_in_round() const { return {}; }

    /// Once a proposal during which this rank has slept is accepted, until the next one: a rank
    /// that had published nothing when it last fell asleep; -1: not known.
    [[nodiscard]] virtual int awaited_in_round() const noexcept { return -1; }

    /// Publishes that this rank does not propose in this round, unless it has published something.
    /// A rank owes it while something of the world is open, and while it has joined.
    virtual void refuse_round() = 0;

    /// Ends the round: follows each Ready of the world, and what of the world was decided together,
    /// once it has been handled.
    virtual void next_round() = 0;

    // ---- the log
    // ---------------------------------------------------------------------------------

    /// The next entry, if there is one.
    [[nodiscard]] virtual Result<std::optional<ChannelEvent>> poll() = 0;

    /// Sends what had to wait inside. True if something moved.
    [[nodiscard]] virtual bool flush() = 0;

    // ---- where the coordinator is ---------------------------------------------------------------

    struct Heard {
        int rank = 0;
        std::vector<std::byte> message;
    };
    /// Announcements of any rank, in turn.
    [[nodiscard]] virtual Result<std::optional<Heard>> next_announcement() = 0;

    /// Appends to the log: to be read by the members of the set. Ready bits of `id`, which may be
    /// none, count from here on.
    virtual void append_decision(const coll::ProcessSet& set,
                                 std::vector<std::byte> message,
                                 std::uint32_t id,
                                 bool more) = 0;
    virtual void append_invalidation(const coll::ProcessSet& set, std::uint32_t id) = 0;

    // ---- sleeping -------------------------------------------------------------------------------

    /// Registers what may wake this rank: its wake-up descriptor, and the ends of its peers. The
    /// reactor outlives the channel's use.
    virtual void watch(coll::Reactor& reactor) = 0;

    /// Between these two nobody looks at the channel. A rank that `expects` something, because it
    /// has something open or in flight, is woken by its peers; another one only to coordinate, and
    /// to make room in the log. After `about_to_sleep` the caller looks once more before it sleeps.
    virtual void about_to_sleep(bool expects) = 0;
    virtual void awake() = 0;

    // ---- ends -----------------------------------------------------------------------------------

    /// Why this world cannot go on, if a peer is gone.
    struct PeerFailure {
        int peer = -1;
        Error error;
        bool in_flight = false;  // what is agreed will never end either
    };
    [[nodiscard]] virtual std::optional<PeerFailure> peer_failure() = 0;

    /// The process sets of the rank have ended since it left: from now on peer_failure() passes
    /// over its departure.
    virtual void forgive_departure(int rank) = 0;

    /// Whether the rank has left with its part of something agreed undone.
    [[nodiscard]] virtual bool has_left_unfinished(int rank) const = 0;

    /// Asks for an entry in the log by which this rank leaves.
    virtual void announce_leave() = 0;

    /// Whether a rank that has not left still waits for a message that had no room: to be sent
    /// before this rank leaves.
    [[nodiscard]] virtual bool has_unsent() const { return false; }

    /// The last message to the peers. `finished`: this rank has done its part of everything that
    /// was agreed.
    virtual void leave(bool finished) = 0;

    /// "rank 3 (pid 812 on host node2)".
    [[nodiscard]] virtual std::string describe(int rank) const = 0;

    /// Whether there are more ranks than processors for them.
    [[nodiscard]] virtual bool is_oversubscribed() = 0;

protected:
    Channel() = default;
};

}  // namespace hvd::rt
