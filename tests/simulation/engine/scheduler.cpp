// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/scheduler.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace hvd::sim {
namespace {

constexpr std::chrono::nanoseconds kStep{50};
constexpr auto kIdle = std::chrono::seconds(300);  // no test waits as long as that

}  // namespace

Scheduler::Scheduler(std::uint64_t seed, const Habits& habits) : random_(seed), habits_(habits) {
    now_ = Time(std::chrono::seconds(1000));
    current_ = this;
    draw_switch();
}

Scheduler::~Scheduler() {
    current_ = nullptr;
}

Scheduler::Thread& Scheduler::spawn(int rank, std::string name, std::function<void()> body) {
    auto thread = std::make_unique<Thread>();
    thread->id = static_cast<int>(threads_.size());
    thread->rank = rank;
    thread->name = std::move(name);
    thread->fiber = std::make_unique<Fiber>(std::move(body));
    threads_.push_back(std::move(thread));
    note_change();
    return *threads_.back();
}

void Scheduler::draw_switch() {
    until_switch_ = 1 + random_.below(2 * habits_.switch_one_in - 1);
}

// ---- the loop -----------------------------------------------------------------------------------

std::string Scheduler::run() {
    while (failure_.empty()) {
        Thread* const next = pick();
        if (next == nullptr) {
            if (std::ranges::all_of(threads_, [](const auto& thread) {
                    return thread->is_dead || thread->fiber->has_ended();
                })) {
                break;
            }
            if (!advance()) {
                failure_ = "deadlock, or a lost wake-up: every thread waits\n" + describe_stuck();
            }
            continue;
        }
        if (++steps_ > habits_.most_steps) {
            failure_ = "no end after " + std::to_string(steps_) + " steps\n" + describe_stuck();
            break;
        }
        now_ += kStep;
        next->is_ready = nullptr;
        next->until.reset();
        next->next_change = nullptr;
        running_ = next;
        next->fiber->resume();
        running_ = nullptr;
        if (next->fiber->has_ended()) {
            drain(*next);
            note_change();
        }
        drain_some();
    }
    return failure_;
}

bool Scheduler::can_run(Thread& thread) {
    if (thread.is_dead || thread.fiber->has_ended()) {
        return false;
    }
    if (thread.frozen_until) {
        if (*thread.frozen_until > now_) {
            return false;
        }
        thread.frozen_until.reset();
    }
    if (!thread.is_ready) {
        return true;
    }
    const bool is_time = thread.until && *thread.until <= now_;
    if (thread.looked_at == changes_ && !is_time) {
        if (!thread.look_again || *thread.look_again > now_) {
            return false;
        }
    }
    thread.looked_at = changes_;
    thread.look_again = thread.next_change ? thread.next_change() : std::nullopt;
    if (is_time || thread.is_ready()) {
        thread.looked_at = 0;  // still ready if another thread runs first, unless that changes it
        return true;
    }
    return false;
}

Scheduler::Thread* Scheduler::pick() {
    runnable_.clear();
    for (const auto& thread : threads_) {
        if (can_run(*thread)) {
            runnable_.push_back(thread.get());
        }
    }
    return runnable_.empty() ? nullptr : runnable_[random_.below(runnable_.size())];
}

std::optional<Time> Scheduler::wakes_at(const Thread& thread) const {
    std::optional<Time> first;
    const auto consider = [&](std::optional<Time> time) {
        if (time && (!first || *time < *first)) {
            first = time;
        }
    };
    if (thread.is_dead || thread.fiber->has_ended()) {
        return first;
    }
    consider(thread.until);
    if (thread.next_change) {
        consider(thread.next_change());
    }
    if (thread.frozen_until) {
        return std::max(*thread.frozen_until, first.value_or(*thread.frozen_until));
    }
    return first;
}

/// Nobody can run: time passes up to what happens next. False when nothing does.
bool Scheduler::advance() {
    std::optional<Time> first;
    for (const auto& thread : threads_) {
        const auto time = wakes_at(*thread);
        if (time && (!first || *time < *first)) {
            first = time;
        }
        if (!thread->stores.empty()) {
            drain(*thread);
        }
    }
    if (!first || *first > now_ + kIdle) {
        return false;
    }
    now_ = std::max(now_, *first);
    note_change();
    return true;
}

// ---- from a fiber -------------------------------------------------------------------------------

void Scheduler::switch_now() {
    draw_switch();
    Thread& self = *running_;
    if (habits_.freeze_one_in != 0 && random_.one_in(habits_.freeze_one_in)) {
        const auto until =
            now_ + std::chrono::microseconds(random_.one_in(8) ? random_.below(400'000)
                                                               : random_.below(300));
        for (const auto& thread : threads_) {
            if (thread->rank == self.rank) {
                thread->frozen_until = until;
            }
        }
        trace([&] { return std::string("is frozen"); });
    }
    self.fiber->suspend();
}

void Scheduler::yield() {
    if (running_ != nullptr) {
        now_ += std::chrono::microseconds(1);
        running_->fiber->suspend();
    }
}

bool Scheduler::wait(std::string what,
                     std::function<bool()> is_ready,
                     std::optional<Time> until,
                     std::function<std::optional<Time>()> next_change) {
    touch();
    if (is_ready()) {
        return true;
    }
    if (running_ == nullptr) {
        throw std::logic_error("the main stack would wait for " + what);
    }
    Thread& self = *running_;
    drain(self);
    self.waits_for = std::move(what);
    self.until = until;
    const auto keep = is_ready;
    self.is_ready = std::move(is_ready);
    self.next_change = std::move(next_change);
    self.looked_at = 0;
    self.fiber->suspend();
    return keep();
}

void Scheduler::fail(std::string why) {
    if (failure_.empty()) {
        failure_ = std::move(why);
        trace([&] { return "FAILED: " + failure_; });
    }
    if (running_ != nullptr) {
        running_->is_dead = true;
        running_->fiber->suspend();
    }
}

void Scheduler::kill(int rank) {
    bool is_own = false;
    for (const auto& thread : threads_) {
        if (thread->rank == rank) {
            drain(*thread);
            thread->is_dead = true;
            is_own = is_own || thread.get() == running_;
        }
    }
    note_change();
    if (is_own) {
        running_->fiber->suspend();
    }
}

// ---- buffered stores ----------------------------------------------------------------------------

void Scheduler::buffer(void* to, std::uint64_t bits, std::size_t bytes) {
    running_->stores.push_back({to, bits, bytes});
}

const Scheduler::Thread::Store* Scheduler::buffered(const void* from) const noexcept {
    if (running_ == nullptr) {
        return nullptr;
    }
    const auto& stores = running_->stores;
    for (auto store = stores.rbegin(); store != stores.rend(); ++store) {
        if (store->to == from) {
            return &*store;
        }
    }
    return nullptr;
}

void Scheduler::drain(Thread& thread) noexcept {
    for (const auto& store : thread.stores) {
        std::memcpy(store.to, &store.bits, store.bytes);
    }
    thread.stores.clear();
}

void Scheduler::drain_some() noexcept {
    for (const auto& thread : threads_) {
        while (!thread->stores.empty() && random_.one_in(habits_.drain_one_in)) {
            const auto& store = thread->stores.front();
            std::memcpy(store.to, &store.bits, store.bytes);
            thread->stores.pop_front();
        }
    }
}

// ---- descriptions -------------------------------------------------------------------------------

std::string Scheduler::describe_stuck() const {
    std::string text;
    for (const auto& thread : threads_) {
        if (thread->is_dead || thread->fiber->has_ended()) {
            continue;
        }
        text += "  rank " + std::to_string(thread->rank) + " " + thread->name +
                (thread->is_ready ? " waits for " + thread->waits_for : " runs") + "\n";
    }
    return text;
}

void Scheduler::print_trace(const std::string& text) const {
    const auto micros =
        std::chrono::duration<double, std::micro>(now_.time_since_epoch()).count() - 1e9;
    std::fprintf(stderr, "%9llu %12.2f us  ", static_cast<unsigned long long>(steps_), micros);
    if (running_ != nullptr) {
        std::fprintf(stderr, "r%d/%s ", running_->rank, running_->name.c_str());
    }
    std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace hvd::sim
