// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/gpu/memory.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace hvd::test::gpu {

/// Streams and events, and the one thread that runs their operations.
///
/// Thread: any; the steps of operations run in its own.
class Scheduler {
public:
    using Id = std::uint64_t;

    Scheduler();
    ~Scheduler();
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    [[nodiscard]] Id make_stream();
    /// The operations that it holds still run.
    [[nodiscard]] bool drop_stream(Id stream);
    [[nodiscard]] Id make_event();
    [[nodiscard]] bool drop_event(Id event);
    [[nodiscard]] bool has_stream(Id stream) const;
    [[nodiscard]] bool has_event(Id event) const;

    void enqueue(Id stream, Step step, bool may_be_pageable, bool is_collective = false);
    /// A host function: what it does next comes after what its stream held.
    void enqueue_host(Id stream, Step step);
    void record(Id id, Id stream);
    void wait_for(Id stream, Id id);

    // `id` is the stream's, or the event's.

    /// Whether all that the stream held has run; the host has then seen it.
    [[nodiscard]] bool is_idle(Id id);
    [[nodiscard]] bool is_complete(Id id);
    /// Waits for it, and no longer than a minute: then it is a violation.
    void wait_idle(Id id);
    void wait_complete(Id id);

    void choose_order(std::uint64_t seed);
    void pause();
    void resume();
    void drain();

    [[nodiscard]] bool has_collectives() const;
    void report(const std::string& violation);
    [[nodiscard]] std::vector<std::string> take_violations();
    [[nodiscard]] std::vector<std::string> leaks() const;
    [[nodiscard]] std::size_t device_bytes() const;

    /// Calls use(memory) with the lock held.
    template <class Use>
    auto with_memory(const Use& use) {
        const std::lock_guard lock(mutex_);
        return use(memory_);
    }

    /// Whether this thread runs an operation: a host function may not call the driver.
    [[nodiscard]] bool is_own_thread() const;

private:
    struct Operation {
        Step step;  // or, empty, one of the next two
        Id awaited = 0;
        std::uint64_t version = 0;  // of the event that is awaited or recorded
        Id recorded = 0;
        Moment moment;
        bool may_be_pageable = false;
        bool is_collective = false;
        bool is_host = false;
    };
    struct Stream {
        std::deque<Operation> operations;
        std::uint64_t enqueued = 0;
        std::uint64_t finished = 0;
        Clock clock;  // what the next operation comes after
        bool is_dropped = false;
    };
    struct Event {
        std::uint64_t recorded = 0;  // how often, as the host sees it
        std::uint64_t completed = 0;
        Clock clock;  // of the last record
        bool is_dropped = false;
    };

    void run();
    [[nodiscard]] std::vector<Id> runnable() const;  // lock held
    [[nodiscard]] Id choose(const std::vector<Id>& streams);
    [[nodiscard]] bool run_first(Id id, std::unique_lock<std::mutex>& lock);
    void push(Id id, Operation operation);  // lock held
    template <class Condition>
    void wait_until(std::unique_lock<std::mutex>& lock, const Condition& condition);
    void report_locked(const std::string& violation);

    mutable std::mutex mutex_;  // guards all below
    std::condition_variable changed_;
    Memory memory_;
    std::map<Id, Stream> streams_;
    std::map<Id, Event> events_;
    Id last_id_ = 0x1000;  // the first handles mean default streams
    Clock host_;           // what the host has seen to be finished
    std::mt19937_64 generator_;
    bool is_in_turn_ = true;
    bool is_paused_ = false;
    bool is_stopped_ = false;
    int collectives_ = 0;
    std::vector<std::string> violations_;
    std::jthread thread_;  // last: it uses the others
};

}  // namespace hvd::test::gpu
