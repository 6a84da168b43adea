// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include <pthread.h>
#include <sys/epoll.h>

namespace hvd::rt {
namespace {

std::vector<Operation*> heads_of(std::span<Operation* const> operations) {
    std::vector<Operation*> heads;
    heads.reserve(operations.size());
    for (Operation* operation : operations) {
        if (operation->head == operation) {
            heads.push_back(operation);
        }
    }
    return heads;
}

bool all_done(std::span<Operation* const> operations) noexcept {
    return std::ranges::all_of(
        operations, [](const Operation* operation) { return TicketTable::is_done(*operation); });
}

/// How the operation ended.
Result<Outcome> outcome_of(const Operation& operation) {
    if (operation.failed) {
        return operation.error;
    }
    return Outcome::finished;
}

}  // namespace

Plan make_plan(std::vector<Operation*> operations) {
    auto heads = heads_of(operations);
    return {.operations = std::move(operations), .heads = std::move(heads)};
}

Engine::Engine(Setup setup, TicketTable& tickets)
    : config_(std::move(setup.config)),
      force_hand_over_(setup.force_hand_over),
      on_peer_lost_(std::move(setup.on_peer_lost)),
      tickets_(tickets),
      reactor_(std::move(setup.reactor)),
      channel_(std::move(setup.channel)),
      executor_(std::move(setup.executor), tickets),
      negotiator_(*channel_, tickets, std::move(setup.coordinator), config_.fusion_bytes),
      completed_before_(tickets.completed()) {
    reactor_->watch(inbox_.descriptor(), EPOLLIN, [this](std::uint32_t) { inbox_.hush(); });
    channel_->watch(*reactor_);
    inbox_.set_asleep(true);
    thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

Engine::~Engine() {
    stop(Deadline::in(std::chrono::seconds(0)));
    // A caller may have come in before the end and submitted after it.
    inbox_.take(taken_);
    fail(taken_, *broken_);
}

void Engine::stop(Deadline deadline) {
    if (!thread_.joinable()) {
        return;
    }
    stop_deadline_ = deadline;
    thread_.request_stop();
    inbox_.wake();
    thread_.join();
}

// ---- callers ------------------------------------------------------------------------------------

Status Engine::claim(std::span<Operation* const> operations) {
    HVD_TRY_STATUS(TicketTable::claim(operations));
    submitted_.fetch_add(operations.size(), std::memory_order_relaxed);
    return ok();
}

Result<std::vector<Operation*>> Engine::create(std::span<Request> requests) {
    HVD_TRY(auto operations, tickets_.create(requests));
    if (auto claimed = claim(operations); !claimed) {
        (void)tickets_.discard(operations);  // nothing of it is pending
        return std::move(claimed).error();
    }
    return operations;
}

Result<std::vector<Operation*>> Engine::submit(std::span<Request> requests) {
    HVD_TRY(auto operations, create(requests));
    inbox_.push(heads_of(operations));
    return operations;
}

Status Engine::start(const Plan& plan) {
    HVD_TRY_STATUS(claim(plan.operations));
    inbox_.push(plan.heads);
    return ok();
}

Result<Outcome> Engine::run(std::span<Request> requests,
                            std::vector<Operation*>& operations,
                            Deadline deadline) {
    HVD_TRY(operations, create(requests));
    return run_claimed(operations, heads_of(operations), deadline);
}

Result<Outcome> Engine::run(const Plan& plan, Deadline deadline) {
    HVD_TRY_STATUS(claim(plan.operations));
    return run_claimed(plan.operations, plan.heads, deadline);
}

Result<Outcome> Engine::run_claimed(std::span<Operation* const> operations,
                                    std::span<Operation* const> heads,
                                    Deadline deadline) {
    if (!try_take_baton()) {
        inbox_.push(heads);
        return wait(operations, deadline);
    }
    taken_.insert(taken_.end(), heads.begin(), heads.end());
    drive([&] { return all_done(operations); }, deadline);
    return wait(operations, deadline);
}

Result<Outcome> Engine::wait(std::span<Operation* const> operations, Deadline deadline) {
    std::optional<Error> first;
    for (const Operation* operation : operations) {
        auto ended = wait(*operation, deadline);
        if (!ended && !first) {
            first = std::move(ended).error();
        } else if (ended && *ended == Outcome::in_progress) {
            return Outcome::in_progress;
        }
    }
    if (first) {
        return *std::move(first);
    }
    return Outcome::finished;
}

Result<Outcome> Engine::wait(const Operation& operation, Deadline deadline) {
    const auto done = [&] { return TicketTable::is_done(operation); };
    if (!done()) {
        HVD_TRY_STATUS(help(done, deadline));
        if (!TicketTable::wait(operation, deadline)) {
            return Outcome::in_progress;
        }
    }
    return outcome_of(operation);
}

Result<std::size_t> Engine::wait_any(std::span<Operation* const> operations, Deadline deadline) {
    const auto first_done = [&] {
        return static_cast<std::size_t>(
            std::ranges::find_if(
                operations,
                [](const Operation* operation) { return TicketTable::is_done(*operation); }) -
            operations.begin());
    };
    HVD_TRY_STATUS(help([&] { return first_done() != operations.size(); }, deadline));
    while (true) {
        const auto seen = tickets_.batches();
        const auto index = first_done();
        if (index != operations.size() || deadline.has_passed()) {
            return index;
        }
        tickets_.wait_any(seen, deadline);
    }
}

template <class Done>
Status Engine::help(const Done& done, Deadline deadline) {
    if (is_inside()) {
        return Error{Errc::invalid_argument, "a callback must not wait for an operation"};
    }
    Spinner spinner(crowded_.load(std::memory_order_relaxed));
    while (!done()) {
        if (try_take_baton()) {
            drive(done, deadline);
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
    return ok();
}

Counters Engine::counters() const {
    const auto& agreed = negotiator_.totals();
    const auto& run = executor_.totals();
    return {.submitted = submitted_.load(std::memory_order_relaxed),
            .completed = tickets_.completed() - completed_before_,
            .agreed_by_name = agreed.by_name.value(),
            .agreed_by_bit = agreed.by_bit.value(),
            .names_bytes = agreed.names_bytes.value(),
            .collectives = run.collectives.value(),
            .collective_bytes = run.bytes.value(),
            .engine_wakeups = wakeups_.load(std::memory_order_relaxed),
            .baton_takeovers = takeovers_.load(std::memory_order_relaxed)};
}

// ---- the baton ----------------------------------------------------------------------------------

bool Engine::try_take_baton() {
    if (!baton_.try_lock()) {
        return false;
    }
    takeovers_.fetch_add(1, std::memory_order_relaxed);
    wake_up();
    return true;
}

void Engine::wake_up() {
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    inbox_.set_asleep(false);
    channel_->awake();
    crowded_.store(channel_->crowded(), std::memory_order_relaxed);
}

/// From here on whoever has news wakes the engine's thread. Looks once more for what came before;
/// true if there was something, or is: then the engine must go on.
bool Engine::announce_sleep() {
    const bool expects = negotiator_.has_open() || executor_.busy();
    inbox_.set_asleep(true);
    channel_->about_to_sleep(expects);
    return expects ? step(Urgency::background) : inbox_.is_full();
}

/// When the engine's thread has something to do though nobody wakes it.
Deadline Engine::next_look() const {
    if (gather_until_ && leave_limit_) {
        return Deadline(std::min(*gather_until_, *leave_limit_));
    }
    return Deadline(gather_until_ ? gather_until_ : leave_limit_);
}

void Engine::lay_down() {
    owner_.store({}, std::memory_order_relaxed);
    baton_.unlock();
}

/// Runs the loop until `done`, or until nothing has moved for about the cost of a wake-up; then
/// gives the baton back. Whoever must be woken for what comes later knows it by then.
template <class Done>
void Engine::drive(const Done& done, Deadline deadline) {
    Spinner spinner(crowded_.load(std::memory_order_relaxed));
    while (true) {
        const bool moved = step(Urgency::awaited);
        if (done() || force_hand_over_) {
            break;
        }
        if (moved) {
            spinner.reset();
        } else if (!spinner.pause()) {
            break;
        }
        if (moved && deadline.has_passed()) {
            break;
        }
    }
    const bool more = announce_sleep() || !next_look().is_never();
    lay_down();
    if (more) {
        inbox_.wake();
    }
}

void Engine::loop(const std::stop_token& stop) {
    (void)pthread_setname_np(pthread_self(), "hvd-engine");
    auto until = Deadline::never();
    while (true) {
        (void)reactor_->wait(until);
        wakeups_.fetch_add(1, std::memory_order_relaxed);
        baton_.lock();
        wake_up();
        dispatch();
        if (stop.stop_requested()) {
            leave();
            lay_down();
            return;
        }
        Spinner spinner(crowded_.load(std::memory_order_relaxed));
        while (true) {
            if (step(Urgency::background)) {
                spinner.reset();
                continue;
            }
            // Only what all ranks have begun is worth a spin: it ends soon.
            if (executor_.busy() && spinner.pause()) {
                continue;
            }
            if (!announce_sleep()) {
                break;
            }
            wake_up();
            spinner.reset();
        }
        until = next_look();
        lay_down();
    }
}

}  // namespace hvd::rt
