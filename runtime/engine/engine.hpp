// SPDX-License-Identifier: Apache-2.0
//
// The spine: from the callers' threads to one loop and back.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/tally.hpp"
#include "runtime/engine/admission.hpp"
#include "runtime/engine/inbox.hpp"
#include "runtime/engine/progress.hpp"
#include "runtime/engine/progress_lock.hpp"
#include "runtime/engine/staged_copies.hpp"
#include "runtime/engine/timeline_switch.hpp"
#include "runtime/tensor/process_set_table.hpp"
#include "runtime/tensor/ticket_table.hpp"
#include "runtime/timeline/timeline.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace hvd::rt {

/// Totals of one rank. The fields are those of hvd_counters.
struct Counters {
    std::uint64_t submitted = 0;
    std::uint64_t completed = 0;
    std::uint64_t agreed_by_name = 0;
    std::uint64_t agreed_by_bit = 0;
    std::uint64_t names_bytes = 0;
    std::uint64_t collectives = 0;
    std::uint64_t collective_bytes = 0;
    std::uint64_t engine_wakeups = 0;
    std::uint64_t caller_progress = 0;
};

/// Operations that are submitted again and again.
struct Plan {
    std::vector<Operation*> operations;
    std::vector<Operation*> leaders;  // of the tensor groups among them
};

/// Makes a plan of operations that were never submitted.
[[nodiscard]] Plan make_plan(std::vector<Operation*> operations);

/// Whether what was waited for has ended; how it failed is an Error instead.
enum class Outcome { finished, in_progress };

/// One rank's engine: a thread that makes progress, and the callers, which make it themselves where
/// they would wait. The thread sleeps without the progress lock.
///
/// Thread: any, for every public method.
class Engine {
public:
    struct Setup {
        Progress::Setup progress;
        coll::ProcessSet world;            // all ranks, as this one sees them
        coll::Staging* staging = nullptr;  // for tensors of devices, which are refused without it
        coll::DeviceTensors* devices = nullptr;  // of those that stay there; nullptr: none do
        bool force_hand_over = false;  // tests: callers give the progress lock back at every step
    };

    /// Starts the engine's thread. `tickets` outlives the engine.
    Engine(Setup setup, TicketTable& tickets);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Ends what `stop` left, which is nothing if it was called.
    ~Engine();

    /// Leaves the world: what was agreed may finish until the deadline, what is pending then fails.
    void stop(Deadline deadline);

    /// The operations of a call; the caller gives them back by TicketTable::release.
    /// Errors: invalid_argument for what this rank alone can see to be wrong.
    [[nodiscard]] Result<std::vector<Operation*>> submit(std::span<Request> requests);

    /// Errors: those that submitting the operations, which are not pending, would give in this
    /// world.
    [[nodiscard]] Status check(std::span<Operation* const> operations) const;

    /// Queues the operations of a plan again. Errors: as submit; invalid_argument while one of them
    /// is pending.
    [[nodiscard]] Status start(const Plan& plan);

    /// As submit, or start, and wait, without a detour through the engine's thread. What was
    /// submitted is in `operations`, also when it failed. Errors: invalid_argument from a callback,
    /// which has then submitted nothing.
    [[nodiscard]] Result<Outcome> run(std::span<Request> requests,
                                      std::vector<Operation*>& operations,
                                      Deadline deadline);
    [[nodiscard]] Result<Outcome> run(const Plan& plan, Deadline deadline);

    /// The same for tensors of a device: what is put into `stream` afterwards finds the results,
    /// and the host waits for no device. Those of the host have ended then.
    [[nodiscard]] Result<Outcome> run_on_stream(std::span<Request> requests,
                                                std::vector<Operation*>& operations,
                                                void* stream,
                                                Deadline deadline);
    [[nodiscard]] Result<Outcome> wait_on_stream(std::span<Operation* const> operations,
                                                 void* stream,
                                                 Deadline deadline);

    /// Whether the device has the result of an operation that has ended without an error.
    [[nodiscard]] Result<Outcome> poll_device(const Operation& operation) const;

    /// Waits for all, on their devices too. The Error is that of the first that failed.
    [[nodiscard]] Result<Outcome> wait(std::span<Operation* const> operations, Deadline deadline);
    [[nodiscard]] Result<Outcome> wait(const Operation& operation, Deadline deadline);

    /// Returns when one of them has ended, with its position; `operations.size()` if none has.
    [[nodiscard]] Result<std::size_t> wait_any(std::span<Operation* const> operations,
                                               Deadline deadline);

    /// The process sets of the world. They change by operations of Kind::add_process_set and
    /// Kind::remove_process_set.
    [[nodiscard]] const ProcessSetTable& process_sets() const noexcept { return sets_; }

    /// Why nothing can succeed in this world any more, if so. Takes no lock.
    [[nodiscard]] Status health() const { return progress_.health(); }

    [[nodiscard]] Counters counters() const;

    /// By process set and operation, in that order.
    [[nodiscard]] Metrics metrics();

    /// Writes a timeline from now on, and no longer. One to another file takes the place of the one
    /// that is being written; one to the same file changes nothing, nor does a stop without one.
    /// Errors: unavailable, where the file cannot be made; invalid_argument from a callback.
    [[nodiscard]] Status start_timeline(Timeline::Options options) {
        return timeline_.start(std::move(options));
    }
    [[nodiscard]] Status stop_timeline() { return timeline_.stop(); }

    /// Whether the calling thread runs the engine right now: it is a callback.
    [[nodiscard]] bool is_inside() const noexcept { return lock_.is_mine(); }

private:
    void push(std::span<Operation* const> leaders);
    void fail_rest();
    [[nodiscard]] Status check_may_wait() const;
    [[nodiscard]] Result<Outcome> wait_for_end(const Operation& operation, Deadline deadline);
    [[nodiscard]] Result<Outcome> wait_for_ends(std::span<Operation* const> operations,
                                                Deadline deadline);
    [[nodiscard]] Result<Outcome> wait_for_devices(std::span<const Operation* const> operations,
                                                   Deadline deadline) const;
    void run_claimed(std::span<Operation* const> operations,
                     std::span<Operation* const> leaders,
                     Deadline deadline);
    template <class Done>
    void help(const Done& done, Deadline deadline);

    [[nodiscard]] ProgressLock::Hold try_take_lock();
    void wake_up();
    void loop(const std::stop_token& stop);
    template <class Done>
    void drive(ProgressLock::Hold hold, const Done& done, Deadline deadline);

    bool force_hand_over_;
    TicketTable& tickets_;
    ProcessSetTable sets_;
    TimelineSwitch timeline_;
    Inbox<Operation*> inbox_;
    StagedCopies copies_;
    Admission admission_;
    ProgressLock lock_;
    Progress progress_;                           // Thread: progress lock
    Deadline sleeps_until_ = Deadline::never();   // Thread: progress lock; the engine's thread does
    Deadline stop_deadline_ = Deadline::never();  // written before the thread is asked to stop

    std::atomic<bool> is_oversubscribed_{true};  // the channel learns late that it is not
    std::uint64_t completed_before_;             // by earlier engines
    std::atomic<std::uint64_t> wakeups_{0};
    Tally caller_progress_;
    std::atomic<bool> has_ended_{false};  // the thread takes nothing from the inbox any more

    std::jthread thread_;  // last: it uses everything above
};

}  // namespace hvd::rt
