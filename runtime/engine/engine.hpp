// SPDX-License-Identifier: Apache-2.0
//
// The spine of the runtime: operations in, agreement, fusion, execution, tickets out. It contains
// no detail of any of them.
#pragma once

#include "collectives/reactor.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/engine/config.hpp"
#include "runtime/engine/inbox.hpp"
#include "runtime/engine/negotiator.hpp"
#include "runtime/engine/spinner.hpp"
#include "runtime/execution/executor.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace hvd::rt {

/// What one rank has done. The fields are those of hvd_counters.
struct Counters {
    std::uint64_t submitted = 0;
    std::uint64_t completed = 0;
    std::uint64_t agreed_by_name = 0;
    std::uint64_t agreed_by_bit = 0;
    std::uint64_t names_bytes = 0;
    std::uint64_t collectives = 0;
    std::uint64_t collective_bytes = 0;
    std::uint64_t engine_wakeups = 0;
    std::uint64_t baton_takeovers = 0;
};

/// Operations that are submitted again and again.
struct Plan {
    std::vector<Operation*> operations;
    std::vector<Operation*> heads;  // of the units among them
};

/// Makes a plan of operations that were never submitted.
[[nodiscard]] Plan make_plan(std::vector<Operation*> operations);

/// Whether what was waited for has ended; how it failed is an Error instead.
enum class Outcome { finished, in_progress };

/// Its state has one owner at a time, the holder of the baton: normally the engine's thread; a
/// caller that would block takes the baton when it is free and drives the same loop until its own
/// operation is done. The thread sleeps without the baton.
///
/// Thread: any, for every public method.
class Engine {
public:
    struct Setup {
        std::unique_ptr<coll::Reactor> reactor;
        std::unique_ptr<Channel> channel;
        std::optional<Coordinator> coordinator;  // on the rank that decides
        Executor::Setup executor;
        EngineConfig config;
        std::function<void(int peer, std::string_view why)> on_peer_lost;
        bool force_hand_over = false;  // tests: callers give the baton back after every step
    };

    /// Starts the engine's thread. `tickets` outlives the engine.
    Engine(Setup setup, TicketTable& tickets);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Ends what `stop` left, which is nothing if it was called.
    ~Engine();

    /// Leaves the world: what runs may finish until the deadline, what is pending then fails.
    void stop(Deadline deadline);

    /// The operations of a call; the caller gives them back by TicketTable::release.
    [[nodiscard]] Result<std::vector<Operation*>> submit(std::span<Request> requests);

    /// Queues the operations of a plan again. Errors: invalid_argument while one of them is
    /// pending.
    [[nodiscard]] Status start(const Plan& plan);

    /// As submit, or start, and wait, without a detour through the engine's thread. What was
    /// submitted is in `operations`, also when it failed.
    [[nodiscard]] Result<Outcome> run(std::span<Request> requests,
                                      std::vector<Operation*>& operations,
                                      Deadline deadline);
    [[nodiscard]] Result<Outcome> run(const Plan& plan, Deadline deadline);

    /// Waits for all. The Error is that of the first that failed.
    [[nodiscard]] Result<Outcome> wait(std::span<Operation* const> operations, Deadline deadline);
    [[nodiscard]] Result<Outcome> wait(const Operation& operation, Deadline deadline);

    /// Returns when one of them has ended, with its position; `operations.size()` if none has.
    [[nodiscard]] Result<std::size_t> wait_any(std::span<Operation* const> operations,
                                               Deadline deadline);

    [[nodiscard]] Counters counters() const;

    /// Whether the calling thread runs the engine right now: it is a callback.
    [[nodiscard]] bool is_inside() const noexcept {
        return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }

private:
    using Urgency = Negotiator::Urgency;

    [[nodiscard]] Status claim(std::span<Operation* const> operations);
    [[nodiscard]] Result<std::vector<Operation*>> create(std::span<Request> requests);
    [[nodiscard]] Result<Outcome> run_claimed(std::span<Operation* const> operations,
                                              std::span<Operation* const> heads,
                                              Deadline deadline);
    template <class Done>
    [[nodiscard]] Status help(const Done& done, Deadline deadline);

    [[nodiscard]] bool try_take_baton();
    void loop(const std::stop_token& stop);

    // Needs the baton.
    template <class Done>
    void drive(const Done& done, Deadline deadline);
    void wake_up();
    [[nodiscard]] bool announce_sleep();
    [[nodiscard]] Deadline next_look() const;
    void lay_down();
    [[nodiscard]] bool step(Urgency urgency);
    [[nodiscard]] bool take(Urgency urgency);
    [[nodiscard]] Result<bool> negotiate();
    [[nodiscard]] bool look_for_trouble();
    [[nodiscard]] bool may_gather(Urgency urgency);
    void lose(const Channel::Trouble& trouble);
    void tell_loss();
    void break_with(const Error& cause);
    void dispatch();
    void fail(std::span<Operation* const> heads, const Error& cause);
    void leave();

    EngineConfig config_;
    bool force_hand_over_;
    std::function<void(int, std::string_view)> on_peer_lost_;
    TicketTable& tickets_;
    Inbox<Operation*> inbox_;

    std::mutex baton_;
    std::atomic<std::thread::id> owner_;  // of the baton; who sees itself there holds it
    // Thread: baton, from here ...
    std::unique_ptr<coll::Reactor> reactor_;
    std::unique_ptr<Channel> channel_;
    Executor executor_;
    Negotiator negotiator_;
    std::vector<Operation*> taken_;  // heads on their way to the negotiator
    std::vector<Operation*> ready_;  // scratch
    std::optional<Deadline::Clock::time_point> gather_until_;  // what is taken waits for company
    std::optional<Channel::Trouble> leaving_;  // a peer left in order: nothing new will be agreed
    std::optional<Deadline::Clock::time_point> leave_limit_;  // for what runs, where it may need it
    std::optional<Channel::Trouble> lost_;  // who is gone, until somebody misses it
    std::optional<Error> broken_;
    bool cut_off_ = false;                        // broken while a collective was in flight
    Deadline stop_deadline_ = Deadline::never();  // written before the thread is asked to stop
    // ... to here.

    std::atomic<bool> crowded_{true};  // more ranks than processors; the channel learns it late
    std::uint64_t completed_before_;   // by earlier engines
    std::atomic<std::uint64_t> submitted_{0};
    std::atomic<std::uint64_t> wakeups_{0};
    std::atomic<std::uint64_t> takeovers_{0};

    std::jthread thread_;  // last: it uses everything above
};

}  // namespace hvd::rt
