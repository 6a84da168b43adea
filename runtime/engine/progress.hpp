// SPDX-License-Identifier: Apache-2.0
//
// The progress loop of the engine, for the holder of the progress lock: take, agree, execute, end.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/reactor.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/engine/config.hpp"
#include "runtime/engine/ended_sets.hpp"
#include "runtime/engine/inbox.hpp"
#include "runtime/engine/intake.hpp"
#include "runtime/engine/negotiator.hpp"
#include "runtime/engine/own_failure.hpp"
#include "runtime/engine/peer_loss.hpp"
#include "runtime/engine/stall_watch.hpp"
#include "runtime/execution/executor.hpp"
#include "runtime/tensor/process_set_table.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::rt {

/// One rank's progress, step by step. It waits for nothing but in `leave`.
///
/// Thread: progress lock.
class Progress {
public:
    using Urgency = Negotiator::Urgency;

    struct Setup {
        std::unique_ptr<coll::Reactor> reactor;
        std::unique_ptr<Channel> channel;
        std::optional<Coordinator> coordinator;  // on the rank that decides
        Executor::Setup executor;
        EngineConfig config;
        std::function<void(const std::string& line)> on_stall{};
        /// This rank ends the world because it has waited for others for too long.
        std::function<void(std::span<const int> missing, const std::string& why)> on_stalled{};
        PeerLoss::Tell on_peer_lost;
    };

    /// The referenced objects outlive this one.
    Progress(Setup setup, TicketTable& tickets, ProcessSetTable& sets, Inbox<Operation*>& inbox);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress() = default;

    /// Takes what callers have submitted, agrees with the other ranks, executes. True if something
    /// moved. A failure ends the world, not the process.
    [[nodiscard]] bool step(Urgency urgency);

    /// Operations of the holder of the lock, as if they had come through the inbox.
    void put(std::span<Operation* const> leaders);

    /// Lets handlers take the messages that have arrived.
    void dispatch();

    /// Whether a collective waits to start or is in flight.
    [[nodiscard]] bool is_busy() const noexcept { return executor_.is_busy(); }

    /// The same, but for what a device does by itself.
    [[nodiscard]] bool is_waiting() const noexcept { return executor_.is_waiting(); }

    /// From here on peers and callers wake the engine's thread. Looks once more for what came
    /// before; true if there was something, or is: then somebody must go on.
    [[nodiscard]] bool announce_sleep();
    void awake();

    /// When there is something to do though nobody wakes the engine's thread.
    [[nodiscard]] Deadline next_look() const;

    [[nodiscard]] bool is_oversubscribed();

    /// Leaves the world: what was agreed may finish until the deadline, what was not fails, and so
    /// does what is submitted later. Blocks until then.
    void leave(Deadline deadline);

    /// Fails what came after `leave`.
    void fail_rest();

    [[nodiscard]] coll::Reactor& reactor() noexcept { return *reactor_; }

    [[nodiscard]] Metrics metrics() const { return executor_.metrics(); }

    // Thread: any.
    [[nodiscard]] Status health() const {
        return is_broken_.load(std::memory_order_acquire) ? Status(*broken_) : ok();
    }
    [[nodiscard]] const Negotiator::Totals& agreed() const noexcept { return negotiator_.totals(); }
    [[nodiscard]] const Executor::Totals& executed() const noexcept { return executor_.totals(); }

private:
    [[nodiscard]] bool take(Urgency urgency);
    [[nodiscard]] Result<bool> negotiate();
    void execute_ready();
    [[nodiscard]] bool look_for_stalls(bool expects);
    [[nodiscard]] bool look_for_failures();
    [[nodiscard]] bool end_after_departure(const std::optional<Channel::PeerFailure>& failure);
    [[nodiscard]] bool end_after_death(const Channel::PeerFailure& failure);
    [[nodiscard]] bool abort_ended_sets();
    [[nodiscard]] Error departure_of(int rank) const;
    void report_departure(int rank);
    void lose(const Channel::PeerFailure& failure);
    void break_here(const Error& cause);
    void tell_and_break(const Error& cause);
    void break_with(const Error& cause);
    template <class Action>
    void guard(Action action);
    template <class Done>
    void run_until(const Done& done, Deadline deadline);
    [[nodiscard]] Error describe(const Operation& leader) const;
    void fail(std::span<Operation* const> leaders);

    EngineConfig config_;
    TicketTable& tickets_;
    Inbox<Operation*>& inbox_;
    Intake intake_;
    std::unique_ptr<coll::Reactor> reactor_;
    std::unique_ptr<Channel> channel_;
    Executor executor_;
    Negotiator negotiator_;
    OwnFailure own_failure_;
    PeerLoss loss_;
    EndedSets ended_sets_;
    StallWatch stalls_;

    std::vector<Operation*> ready_;                               // scratch
    std::optional<Deadline::Clock::time_point> departure_limit_;  // for what runs
    std::optional<Error> broken_;         // does not change once it has a value
    std::atomic<bool> is_broken_{false};  // Thread: any; broken_ may be read by all then
    bool is_cut_off_ = false;             // broken with a part of a collective to do
    std::optional<int> left_by_;          // broken because this peer has shut down
    bool is_leaving_ = false;
};

}  // namespace hvd::rt
