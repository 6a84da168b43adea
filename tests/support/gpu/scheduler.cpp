// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace hvd::test::gpu {
namespace {

constexpr auto kWaitLimit = std::chrono::seconds(60);
constexpr auto kRetry = std::chrono::microseconds(100);  // of an operation that waits for a peer

}  // namespace

Scheduler::Scheduler()
    : memory_([this](const std::string& violation) { report_locked(violation); }),
      thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
    {
        const std::lock_guard lock(mutex_);
        is_stopped_ = true;
    }
    changed_.notify_all();
}

Scheduler::Id Scheduler::make_stream() {
    const std::lock_guard lock(mutex_);
    streams_[++last_id_];
    return last_id_;
}

bool Scheduler::drop_stream(Id stream) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    if (found == streams_.end() || found->second.is_dropped) {
        return false;
    }
    found->second.is_dropped = true;
    return true;
}

Scheduler::Id Scheduler::make_event() {
    const std::lock_guard lock(mutex_);
    events_[++last_id_];
    return last_id_;
}

bool Scheduler::drop_event(Id event) {
    const std::lock_guard lock(mutex_);
    const auto found = events_.find(event);
    if (found == events_.end() || found->second.is_dropped) {
        return false;
    }
    found->second.is_dropped = true;  // operations that wait for it still do
    return true;
}

bool Scheduler::has_stream(Id stream) const {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    return found != streams_.end() && !found->second.is_dropped;
}

bool Scheduler::has_event(Id event) const {
    const std::lock_guard lock(mutex_);
    const auto found = events_.find(event);
    return found != events_.end() && !found->second.is_dropped;
}

void Scheduler::push(Id id, Operation operation) {
    auto& stream = streams_.at(id);
    merge(stream.clock, host_);
    stream.clock[id] = ++stream.enqueued;
    operation.moment = {.stream = id, .number = stream.enqueued, .before = stream.clock};
    collectives_ += operation.is_collective ? 1 : 0;
    stream.operations.push_back(std::move(operation));
    changed_.notify_all();
}

void Scheduler::enqueue(Id stream, Step step, bool may_be_pageable, bool is_collective) {
    const std::lock_guard lock(mutex_);
    Operation operation;
    operation.step = std::move(step);
    operation.may_be_pageable = may_be_pageable;
    operation.is_collective = is_collective;
    push(stream, std::move(operation));
}

void Scheduler::enqueue_host(Id stream, Step step) {
    const std::lock_guard lock(mutex_);
    Operation operation;
    operation.step = std::move(step);
    operation.is_host = true;
    push(stream, std::move(operation));
}

void Scheduler::record(Id id, Id stream) {
    const std::lock_guard lock(mutex_);
    auto& event = events_.at(id);
    Operation operation;
    operation.recorded = id;
    operation.version = ++event.recorded;
    push(stream, std::move(operation));
    event.clock = streams_.at(stream).clock;
}

void Scheduler::wait_for(Id stream, Id id) {
    const std::lock_guard lock(mutex_);
    const auto& event = events_.at(id);
    if (event.recorded == 0) {
        return;  // as the driver does: an event that was never recorded is complete
    }
    merge(streams_.at(stream).clock, event.clock);
    Operation operation;
    operation.awaited = id;
    operation.version = event.recorded;
    push(stream, std::move(operation));
}

bool Scheduler::is_idle(Id id) {
    const std::lock_guard lock(mutex_);
    const auto& stream = streams_.at(id);
    if (stream.finished != stream.enqueued) {
        return false;
    }
    merge(host_, stream.clock);
    return true;
}

bool Scheduler::is_complete(Id id) {
    const std::lock_guard lock(mutex_);
    const auto& event = events_.at(id);
    if (event.completed != event.recorded) {
        return false;
    }
    merge(host_, event.clock);
    return true;
}

template <class Condition>
void Scheduler::wait_until(std::unique_lock<std::mutex>& lock, const Condition& condition) {
    if (is_paused_ && !condition()) {
        report_locked("the host waits for a device that the test has paused");
        is_paused_ = false;
        changed_.notify_all();
    }
    if (!changed_.wait_for(lock, kWaitLimit, condition)) {
        report_locked("the host has waited a minute for a device");
    }
}

void Scheduler::wait_idle(Id id) {
    std::unique_lock lock(mutex_);
    const auto wanted = streams_.at(id).enqueued;
    const auto clock = streams_.at(id).clock;
    wait_until(lock, [&] { return streams_.at(id).finished >= wanted; });
    merge(host_, clock);
}

void Scheduler::wait_complete(Id id) {
    std::unique_lock lock(mutex_);
    const auto wanted = events_.at(id).recorded;
    const auto clock = events_.at(id).clock;
    wait_until(lock, [&] { return events_.at(id).completed >= wanted; });
    merge(host_, clock);
}

void Scheduler::drain() {
    std::unique_lock lock(mutex_);
    wait_until(lock, [&] {
        return std::ranges::all_of(
            streams_, [](const auto& entry) { return entry.second.operations.empty(); });
    });
}

void Scheduler::choose_order(std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    is_in_turn_ = seed == 0;
    generator_.seed(seed);
}

void Scheduler::pause() {
    const std::lock_guard lock(mutex_);
    is_paused_ = true;
}

void Scheduler::resume() {
    const std::lock_guard lock(mutex_);
    is_paused_ = false;
    changed_.notify_all();
}

bool Scheduler::has_collectives() const {
    const std::lock_guard lock(mutex_);
    return collectives_ != 0;
}

void Scheduler::report(const std::string& violation) {
    const std::lock_guard lock(mutex_);
    report_locked(violation);
}

void Scheduler::report_locked(const std::string& violation) {
    violations_.push_back(violation);
}

std::vector<std::string> Scheduler::take_violations() {
    drain();
    const std::lock_guard lock(mutex_);
    return std::exchange(violations_, {});
}

std::vector<std::string> Scheduler::leaks() const {
    const std::lock_guard lock(mutex_);
    auto leaks = memory_.leaks();
    const auto count = [&](const auto& things, const std::string& name) {
        const auto alive =
            std::ranges::count_if(things, [](const auto& one) { return !one.second.is_dropped; });
        if (alive != 0) {
            leaks.push_back(std::to_string(alive) + " " + name + (alive == 1 ? "" : "s"));
        }
    };
    count(streams_, "stream");
    count(events_, "event");
    return leaks;
}

std::size_t Scheduler::device_bytes() const {
    const std::lock_guard lock(mutex_);
    return memory_.device_bytes();
}

bool Scheduler::is_own_thread() const {
    return std::this_thread::get_id() == thread_.get_id();
}

std::vector<Scheduler::Id> Scheduler::runnable() const {
    std::vector<Id> ids;
    for (const auto& [id, stream] : streams_) {
        if (stream.operations.empty()) {
            continue;
        }
        const auto& first = stream.operations.front();
        if (first.awaited == 0 || events_.at(first.awaited).completed >= first.version) {
            ids.push_back(id);
        }
    }
    return ids;
}

Scheduler::Id Scheduler::choose(const std::vector<Id>& streams) {
    return is_in_turn_ ? streams.front() : streams[generator_() % streams.size()];
}

bool Scheduler::run_first(Id id, std::unique_lock<std::mutex>& lock) {
    auto& stream = streams_.at(id);  // a map's elements stay where they are
    auto& operation = stream.operations.front();
    if (operation.recorded != 0) {
        events_.at(operation.recorded).completed = operation.version;
    } else if (operation.step) {
        if (operation.is_host) {
            merge(host_, operation.moment.before);
        }
        const Touch touch = [&](const Access& access) {
            const std::lock_guard guard(mutex_);
            memory_.access(access, operation.moment, operation.may_be_pageable);
        };
        lock.unlock();
        const bool finished = operation.step(touch);
        lock.lock();
        if (!finished) {
            return false;
        }
    }
    collectives_ -= operation.is_collective ? 1 : 0;
    stream.operations.pop_front();
    ++stream.finished;
    return true;
}

void Scheduler::run() {
    std::unique_lock lock(mutex_);
    std::set<Id> waiting;  // for a peer, since the last progress of any stream
    while (!is_stopped_) {
        auto ids = is_paused_ ? std::vector<Id>{} : runnable();
        std::erase_if(ids, [&](Id id) { return waiting.contains(id); });
        if (ids.empty()) {
            if (waiting.empty()) {
                changed_.wait(lock);
            } else {
                changed_.wait_for(lock, kRetry);
            }
            waiting.clear();
            continue;
        }
        const auto id = choose(ids);
        if (run_first(id, lock)) {
            waiting.clear();
            changed_.notify_all();
        } else {
            waiting.insert(id);
        }
    }
}

}  // namespace hvd::test::gpu
