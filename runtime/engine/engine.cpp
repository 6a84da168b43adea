// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/engine.hpp"

#include "runtime/engine/spinner.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <pthread.h>

namespace hvd::rt {
namespace {

std::vector<Operation*> leaders_of(std::span<Operation* const> operations) {
    std::vector<Operation*> leaders;
    leaders.reserve(operations.size());
    for (Operation* operation : operations) {
        if (operation->leader == operation) {
            leaders.push_back(operation);
        }
    }
    return leaders;
}

bool all_done(std::span<Operation* const> operations) noexcept {
    return std::ranges::all_of(
        operations, [](const Operation* operation) { return TicketTable::is_done(*operation); });
}

}  // namespace

Plan make_plan(std::vector<Operation*> operations) {
    auto leaders = leaders_of(operations);
    return {.operations = std::move(operations), .leaders = std::move(leaders)};
}

Engine::Engine(Setup setup, TicketTable& tickets)
    : force_hand_over_(setup.force_hand_over),
      tickets_(tickets),
      sets_(std::move(setup.world)),
      timeline_(tickets, lock_),
      copies_(setup.staging, inbox_),
      admission_(
          {.tickets = tickets,
           .sets = sets_,
           .devices = DeviceOperations(setup.devices,
                                       setup.progress.config.is_hierarchical ? &sets_ : nullptr),
           .copies = copies_,
           .averages_over_contributing = setup.progress.config.averages_over_contributing,
           .adasum_across_hosts = setup.progress.config.adasum_across_hosts}),
      progress_(std::move(setup.progress), tickets, sets_, inbox_),
      completed_before_(tickets.completed()) {
    inbox_.set_asleep(true);
    tickets_.set_carrier(&copies_);
    thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

Engine::~Engine() {
    stop(Deadline::in(std::chrono::seconds(0)));
    // A caller may have come in before the end and submitted after it.
    fail_rest();
    const auto hold = lock_.take();
    tickets_.set_observer(nullptr);
    tickets_.set_carrier(nullptr);
}

void Engine::stop(Deadline deadline) {
    if (!thread_.joinable()) {
        return;
    }
    stop_deadline_ = deadline;
    thread_.request_stop();
    inbox_.wake();
    thread_.join();
    fail_rest();
    copies_.trim();
}

/// Ends operations that came after the end of the thread, and those whose results come back then.
void Engine::fail_rest() {
    copies_.drain();
    const auto hold = lock_.take();
    progress_.fail_rest();
}

// ---- callers ------------------------------------------------------------------------------------

Status Engine::check(std::span<Operation* const> operations) const {
    return admission_.check(operations);
}

Result<std::vector<Operation*>> Engine::submit(std::span<Request> requests) {
    HVD_TRY(auto operations, admission_.create(requests));
    push(leaders_of(operations));
    return operations;
}

Status Engine::start(const Plan& plan) {
    HVD_TRY_STATUS(admission_.claim(plan.operations));
    push(plan.leaders);
    return ok();
}

/// Hands operations to the engine's thread. Once that has ended they fail here, at once.
void Engine::push(std::span<Operation* const> leaders) {
    if (!copies_.send(leaders)) {
        inbox_.push(leaders);
    }
    if (has_ended_.load(std::memory_order_seq_cst) && !is_inside()) {
        fail_rest();
    }
}

Status Engine::check_may_wait() const {
    if (is_inside()) {
        return Error{Errc::invalid_argument, "a callback must not wait for an operation"};
    }
    return ok();
}

Result<Outcome> Engine::run(std::span<Request> requests,
                            std::vector<Operation*>& operations,
                            Deadline deadline) {
    HVD_TRY_STATUS(check_may_wait());
    HVD_TRY(operations, admission_.create(requests));
    run_claimed(operations, leaders_of(operations), deadline);
    return wait(operations, deadline);
}

Result<Outcome> Engine::run(const Plan& plan, Deadline deadline) {
    HVD_TRY_STATUS(check_may_wait());
    HVD_TRY_STATUS(admission_.claim(plan.operations));
    run_claimed(plan.operations, plan.leaders, deadline);
    return wait(plan.operations, deadline);
}

Result<Outcome> Engine::run_on_stream(std::span<Request> requests,
                                      std::vector<Operation*>& operations,
                                      void* stream,
                                      Deadline deadline) {
    HVD_TRY_STATUS(check_may_wait());
    HVD_TRY(operations, admission_.create(requests));
    run_claimed(operations, leaders_of(operations), deadline);
    return wait_on_stream(operations, stream, deadline);
}

/// Submits them, and makes progress on this thread where it can.
void Engine::run_claimed(std::span<Operation* const> operations,
                         std::span<Operation* const> leaders,
                         Deadline deadline) {
    const auto is_staged = [](const Operation* operation) { return operation->staged != nullptr; };
    if (std::ranges::none_of(operations, is_staged)) {
        if (auto hold = try_take_lock()) {
            progress_.put(leaders);
            drive(
                std::move(hold), [&] { return all_done(operations); }, deadline);
            return;
        }
    }
    push(leaders);
}

Result<Outcome> Engine::wait_for_ends(std::span<Operation* const> operations, Deadline deadline) {
    std::optional<Error> first;
    // The last one first: when it is done the others usually are, and the thread has slept once.
    for (std::size_t left = operations.size(); left > 0; --left) {
        const Operation& operation = *operations[left - 1];
        if (TicketTable::has_succeeded(operation)) {
            continue;
        }
        auto ended = wait_for_end(operation, deadline);
        if (!ended) {
            first = std::move(ended).error();
        } else if (*ended == Outcome::in_progress) {
            return Outcome::in_progress;
        }
    }
    if (first) {
        return *std::move(first);
    }
    return Outcome::finished;
}

/// Waits for the devices of operations that have ended here.
Result<Outcome> Engine::wait_for_devices(std::span<const Operation* const> operations,
                                         Deadline deadline) const {
    for (const Operation* operation : operations) {
        if (operation->event == nullptr) {
            continue;
        }
        const auto health_of = [&] {
            const auto all = health();
            return all ? all : Status(not_finished(all.error(), *operation));
        };
        HVD_TRY(const bool is_there, wait_for_device(*operation->event, deadline, health_of));
        if (!is_there) {
            return Outcome::in_progress;
        }
    }
    return Outcome::finished;
}

Result<Outcome> Engine::wait(std::span<Operation* const> operations, Deadline deadline) {
    HVD_TRY(const auto ended, wait_for_ends(operations, deadline));
    return ended == Outcome::finished ? wait_for_devices(operations, deadline) : ended;
}

Result<Outcome> Engine::wait(const Operation& operation, Deadline deadline) {
    HVD_TRY(const auto ended, wait_for_end(operation, deadline));
    const auto* const only = &operation;
    return ended == Outcome::finished ? wait_for_devices({&only, 1}, deadline) : ended;
}

Result<Outcome> Engine::poll_device(const Operation& operation) const {
    const auto* const only = &operation;
    return wait_for_devices({&only, 1}, Deadline::in(std::chrono::seconds(0)));
}

Result<Outcome> Engine::wait_on_stream(std::span<Operation* const> operations,
                                       void* stream,
                                       Deadline deadline) {
    HVD_TRY(const auto ended, wait_for_ends(operations, deadline));
    if (ended == Outcome::finished) {
        HVD_TRY_STATUS(hold_back_stream(operations, stream, [this] { return health(); }));
    }
    return ended;
}

Result<Outcome> Engine::wait_for_end(const Operation& operation, Deadline deadline) {
    const auto done = [&] { return TicketTable::is_done(operation); };
    if (!done()) {
        HVD_TRY_STATUS(check_may_wait());
        help(done, deadline);
        if (!TicketTable::wait(operation, deadline)) {
            return Outcome::in_progress;
        }
    }
    HVD_TRY_STATUS(TicketTable::outcome(operation));
    return Outcome::finished;
}

Result<std::size_t> Engine::wait_any(std::span<Operation* const> operations, Deadline deadline) {
    const auto first_done = [&] {
        return static_cast<std::size_t>(
            std::ranges::find_if(
                operations,
                [](const Operation* operation) { return TicketTable::is_done(*operation); }) -
            operations.begin());
    };
    HVD_TRY_STATUS(check_may_wait());
    help([&] { return first_done() != operations.size(); }, deadline);
    while (true) {
        const auto seen = tickets_.batches();
        const auto index = first_done();
        if (index != operations.size() || deadline.has_passed()) {
            return index;
        }
        tickets_.wait_any(seen, deadline);
    }
}

/// Makes progress on the caller's thread where it can, for about as long as a wake-up costs.
template <class Done>
void Engine::help(const Done& done, Deadline deadline) {
    Spinner spinner(is_oversubscribed_.load(std::memory_order_relaxed));
    while (!done()) {
        if (auto hold = try_take_lock()) {
            drive(std::move(hold), done, deadline);
            if (!force_hand_over_) {
                break;
            }
            std::this_thread::yield();
        } else if (!spinner.pause()) {
            break;
        }
        if (deadline.has_passed()) {
            break;
        }
    }
}

Counters Engine::counters() const {
    const auto& agreed = progress_.agreed();
    const auto& executed = progress_.executed();
    return {.submitted = admission_.submitted(),
            .completed = tickets_.completed() - completed_before_,
            .agreed_by_name = agreed.by_name.value(),
            .agreed_by_bit = agreed.by_bit.value(),
            .names_bytes = agreed.names_bytes.value(),
            .collectives = executed.collectives.value(),
            .collective_bytes = executed.bytes.value(),
            .engine_wakeups = wakeups_.load(std::memory_order_relaxed),
            .caller_progress = caller_progress_.value()};
}

Metrics Engine::metrics() {
    if (is_inside()) {
        return progress_.metrics();
    }
    const auto hold = lock_.take();
    return progress_.metrics();
}

// ---- progress -----------------------------------------------------------------------------------

ProgressLock::Hold Engine::try_take_lock() {
    auto hold = lock_.try_take();
    if (hold) {
        caller_progress_ += 1;
        wake_up();
    }
    return hold;
}

void Engine::wake_up() {
    progress_.awake();
    is_oversubscribed_.store(progress_.is_oversubscribed(), std::memory_order_relaxed);
}

/// Runs the loop until `done`, or until nothing has moved for about the cost of a wake-up; then
/// gives the lock back. What must be woken for later events knows it by then.
template <class Done>
void Engine::drive(ProgressLock::Hold hold, const Done& done, Deadline deadline) {
    Spinner spinner(is_oversubscribed_.load(std::memory_order_relaxed));
    while (true) {
        const bool has_moved = progress_.step(Progress::Urgency::awaited);
        if (done() || force_hand_over_) {
            break;
        }
        if (has_moved) {
            spinner.reset();
        } else if (!spinner.pause()) {
            break;
        }
        if (has_moved && deadline.has_passed()) {
            break;
        }
    }
    const bool has_more =
        progress_.announce_sleep() || progress_.next_look().is_before(sleeps_until_);
    { const auto released = std::move(hold); }
    if (has_more) {
        inbox_.wake();
    }
}

void Engine::loop(const std::stop_token& stop) {
    (void)pthread_setname_np(pthread_self(), "hvd-engine");
    while (true) {
        (void)progress_.reactor().wait(sleeps_until_);
        wakeups_.fetch_add(1, std::memory_order_relaxed);
        const auto hold = lock_.take();
        wake_up();
        progress_.dispatch();
        if (stop.stop_requested()) {
            progress_.leave(stop_deadline_);
            // An operation pushed before others can see this flag is failed by the call after it.
            has_ended_.store(true, std::memory_order_seq_cst);
            progress_.fail_rest();
            return;
        }
        Spinner spinner(is_oversubscribed_.load(std::memory_order_relaxed));
        while (true) {
            if (progress_.step(Progress::Urgency::background)) {
                spinner.reset();
                continue;
            }
            // Only what all ranks have begun is worth a spin: it ends soon.
            if (progress_.is_waiting() && spinner.pause()) {
                continue;
            }
            if (!progress_.announce_sleep()) {
                break;
            }
            wake_up();
            spinner.reset();
        }
        // A look that is not needed any more is slept up to all the same: otherwise each operation
        // that is waited for would have to wake this thread once more, for another look.
        const auto next = progress_.next_look();
        if (sleeps_until_.has_passed() || next.is_before(sleeps_until_)) {
            sleeps_until_ = next;
        }
    }
}

}  // namespace hvd::rt
