// SPDX-License-Identifier: Apache-2.0
//
// Between the callers' operations and the channel: announces each by name or by a ready bit, and
// learns which have become ready.
#pragma once

#include "runtime/control/channel.hpp"
#include "runtime/engine/coordinator_driver.hpp"
#include "runtime/engine/departures.hpp"
#include "runtime/engine/name_query.hpp"
#include "runtime/engine/own_join.hpp"
#include "runtime/engine/set_negotiation.hpp"
#include "runtime/engine/world_proposal.hpp"
#include "runtime/negotiation/coordinator.hpp"
#include "runtime/tensor/process_set_table.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// How the operations of all process sets become ready, in an order in which every rank executes
/// those of the sets it is in.
///
/// Operations of a set are held back while its lane has no room: they then travel together. What
/// one rank makes ready at once is a batch of one set. A rank that joins holds back all that it
/// submits until all ranks have joined, and takes part in what the others do by neutral operations.
///
/// Thread: progress lock.
class Negotiator {
public:
    using Totals = NegotiationContext::Totals;

    /// Whether a caller waits for exactly the operations that it submits.
    enum class Urgency { background, awaited };

    struct Setup {
        Channel& channel;
        TicketTable& tickets;
        ProcessSetTable& sets;
        std::optional<Coordinator> coordinator;   // on the rank that decides, nothing elsewhere
        std::optional<std::size_t> fusion_bytes;  // that rank's counts for all
        std::function<bool(const coll::ProcessSet&)> has_room;    // in the lane of the set
        std::function<void(int id)> on_set_removed = [](int) {};  // nothing new of it is executed
        std::function<void(int id, int rank)> on_set_ended = [](int, int) {};  // the rank has left
        /// An operation is about to fail because the rank has left.
        std::function<void(int rank)> on_missed = [](int) {};
        bool carries_payloads = false;  // proposals of small operations carry their inputs
    };

    explicit Negotiator(Setup setup);

    /// Forgets what was agreed. Nothing is open any more.
    ~Negotiator();
    Negotiator(const Negotiator&) = delete;
    Negotiator& operator=(const Negotiator&) = delete;

    /// Takes new tensor groups by their leaders.
    void submit(std::span<Operation* const> leaders, Urgency urgency);

    /// Takes every step that is possible now and appends the leaders of ready operations to
    /// `ready`. Returns at the end of each batch, so that a batch is one call. True if something
    /// moved. Errors: the channel's; the world is broken then.
    [[nodiscard]] Result<bool> step(std::vector<Operation*>& ready);

    /// Where the inputs of all ranks to what the last step made ready are, in the order of the
    /// ranks, if they have travelled with a proposal: else empty. Valid until the next step.
    [[nodiscard]] std::span<const std::byte* const> inputs() const noexcept {
        return proposal_.inputs();
    }

    /// Whether an operation is on its way to being agreed.
    [[nodiscard]] bool has_open() const noexcept;

    /// The fused size that the ranks agreed on; none where the backend chooses. Agreed before any
    /// operation is ready.
    [[nodiscard]] std::optional<std::size_t> fusion_bytes() const noexcept { return fusion_bytes_; }

    /// The rank that was the last to leave, by the log, once nothing of it is executed any more:
    /// no process set is without such a rank or, but on rank 0, this rank itself has left.
    [[nodiscard]] std::optional<int> left_rank() const noexcept { return left_rank_; }

    /// The ranks that have left while other sets go on, and perhaps the last one.
    [[nodiscard]] const std::vector<int>& departed() const noexcept { return departures_.ranks(); }

    /// Whether this rank decides for all.
    [[nodiscard]] bool coordinates() const noexcept { return coordinator_.has_value(); }

    /// Whether other ranks may yet accept what this one has proposed.
    [[nodiscard]] bool is_proposing() const noexcept { return proposal_.is_waiting(); }

    // ---- stalls ---------------------------------------------------------------------------------

    /// Whether other ranks wait for what rank 0, this one, coordinates.
    [[nodiscard]] bool has_others_waiting() const noexcept {
        return coordinator_ && coordinator_->has_waiting();
    }
    /// On rank 0: the longest wait of any operation since the last call.
    [[nodiscard]] std::chrono::milliseconds take_longest_wait() noexcept {
        return coordinator_ ? coordinator_->take_longest_wait() : std::chrono::milliseconds(0);
    }

    /// Adds what this rank knows to wait for other ranks: all of it on rank 0, else its proposal.
    void list_waiting(std::vector<Waiting>& list) const;

    /// A proposal waits from now on, unless it has waited before.
    void note_time(Waiting::TimePoint now) { proposal_.note_time(now); }

    /// Asks that operations that wait with a ready bit since `before` are announced by name.
    [[nodiscard]] NameQuery ask_for_names(Waiting::TimePoint before) {
        return rt::ask_for_names(context_, before);
    }

    /// On rank 0: ends the world on all ranks. `culprit` has been waited for with the tensor.
    void end_world(int culprit, const std::string& name, const Error& error) {
        coordinator_->end_world(culprit, name, error);
    }

    /// The same, by a failure of rank 0 itself.
    void end_world_here(const Error& cause) {
        coordinator_->end_world_of(departures_.own_rank(), cause);
    }

    /// Why the world ends: a rank has been waited for too long, or has failed.
    [[nodiscard]] const std::optional<Channel::PeerFailure>& verdict() const noexcept {
        return verdict_;
    }

    /// Fails all that is not agreed.
    void fail_open(const DescribeFailure& describe);

    [[nodiscard]] const Totals& totals() const noexcept { return context_.totals; }

private:
    [[nodiscard]] SetNegotiation& negotiation_of(ProcessSetEntry& entry);
    [[nodiscard]] bool may_propose(std::span<Operation* const> leaders, Urgency urgency) const;
    [[nodiscard]] bool settle_proposal(std::vector<Operation*>& ready);
    [[nodiscard]] bool release_held();

    [[nodiscard]] Status handle(ChannelEvent& event, std::vector<Operation*>& ready);
    [[nodiscard]] Status on(const event::Decided& decided, std::vector<Operation*>& ready);
    void on(const event::Ready& batch, std::vector<Operation*>& ready);
    void invalidate(CacheId id);
    void end_round();

    [[nodiscard]] Status on_joined(const Decision& decision);
    void on_membership(const Decision& decision);
    void drop_agreements(int set_id);

    void on_left(int rank);

    Channel& channel_;
    TicketTable& tickets_;
    ProcessSetTable& sets_;
    std::optional<CoordinatorDriver> coordinator_;
    std::optional<std::size_t> fusion_bytes_;
    std::function<bool(const coll::ProcessSet&)> has_room_;
    std::function<void(int)> on_set_removed_;
    std::function<void(int, int)> on_set_ended_;

    NegotiationContext context_;
    std::map<int, SetNegotiation> negotiations_;  // by set
    SetNegotiation& world_;
    WorldProposal proposal_;
    OwnJoin join_;
    Departures departures_;
    std::set<int> holding_;               // sets that may hold something back: one look at each
    std::optional<ChannelEvent> unread_;  // an entry that comes after what was ready before

    std::optional<int> left_rank_;
    std::optional<Channel::PeerFailure> verdict_;
};

}  // namespace hvd::rt
