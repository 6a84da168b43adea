// SPDX-License-Identifier: Apache-2.0
//
// Runs the threads of all ranks of a simulated world on one real thread, in an order and at times
// that depend on the seed alone.
#pragma once

#include "tests/simulation/engine/fiber.hpp"
#include "tests/simulation/engine/random.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace hvd::sim {

/// Virtual time.
struct Clock {
    // NOLINTBEGIN(readability-identifier-naming): a clock of std::chrono has these names
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<Clock>;
    static constexpr bool is_steady = true;
    // NOLINTEND(readability-identifier-naming)

    [[nodiscard]] static time_point now() noexcept;
};
using Time = Clock::time_point;

/// How the threads of a schedule are switched.
struct Habits {
    unsigned switch_one_in = 4;  // accesses to shared memory after which another thread runs
    unsigned freeze_one_in = 0;  // switches at which the rank stops for a while; 0: never
    unsigned drain_one_in = 0;   // accesses at which a buffered store becomes visible. 0: there is
                                 // no store buffer
    std::uint64_t most_steps = 3'000'000;
};

class Scheduler {
public:
    Scheduler(std::uint64_t seed, const Habits& habits);
    ~Scheduler();
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    /// The one that runs; there is one at a time.
    [[nodiscard]] static Scheduler& current() noexcept { return *current_; }
    [[nodiscard]] static bool is_inside_fiber() noexcept {
        return current_ != nullptr && current_->running_ != nullptr;
    }

    struct Thread {
        int id = 0;
        int rank = -1;
        std::string name;
        std::unique_ptr<Fiber> fiber;
        bool is_dead = false;  // its process has died
        // While it waits:
        std::function<bool()> is_ready;  // empty: it can run
        std::optional<Time> until;
        std::function<std::optional<Time>()> next_change;  // when to look again
        std::uint64_t looked_at = 0;                       // changes
        std::optional<Time> look_again;                    // whatever changes
        std::string waits_for;
        std::optional<Time> frozen_until;
        // Stores that other threads do not see yet, oldest first.
        struct Store {
            void* to = nullptr;
            std::uint64_t bits = 0;
            std::size_t bytes = 0;
        };
        std::deque<Store> stores;
    };

    Thread& spawn(int rank, std::string name, std::function<void()> body);

    /// Runs until all threads have ended. Returns why it failed, or nothing.
    [[nodiscard]] std::string run();

    // ---- from a fiber
    // ----------------------------------------------------------------------------

    /// Before an access to memory that threads share.
    void touch() {
        if (running_ != nullptr && --until_switch_ == 0) {
            switch_now();
        }
    }
    /// Lets others run.
    void yield();

    /// Sleeps until `is_ready` (true) or `until` (false). `next_change`: when it may become so by
    /// itself.
    bool wait(std::string what,
              std::function<bool()> is_ready,
              std::optional<Time> until = std::nullopt,
              std::function<std::optional<Time>()> next_change = {});

    /// Something changed for which a thread may wait.
    void note_change() noexcept { ++changes_; }

    /// Ends the schedule as failed. From a fiber it does not return.
    void fail(std::string why);

    /// The rank's threads never run again.
    void kill(int rank);

    [[nodiscard]] Time now() const noexcept { return now_; }
    [[nodiscard]] Thread* running() const noexcept { return running_; }
    [[nodiscard]] Random& random() noexcept { return random_; }
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
    [[nodiscard]] bool has_failed() const noexcept { return !failure_.empty(); }
    [[nodiscard]] const Habits& habits() const noexcept { return habits_; }

    // ---- buffered stores ------------------------------------------------------------------------

    [[nodiscard]] bool buffers_stores() const noexcept {
        return habits_.drain_one_in != 0 && running_ != nullptr;
    }
    void buffer(void* to, std::uint64_t bits, std::size_t bytes);
    /// The running thread's youngest store to `from`, where it has one.
    [[nodiscard]] const Thread::Store* buffered(const void* from) const noexcept;
    /// Everything that the running thread has stored becomes visible.
    void drain() noexcept {
        if (running_ != nullptr) {
            drain(*running_);
        }
    }

    // ---- trace ----------------------------------------------------------------------------------

    static inline bool is_tracing = false;
    template <class Text>
    void trace(const Text& text) {
        if (is_tracing) {
            print_trace(text());
        }
    }

private:
    void switch_now();
    void draw_switch();
    void drain(Thread& thread) noexcept;
    void drain_some() noexcept;
    [[nodiscard]] Thread* pick();
    [[nodiscard]] bool can_run(Thread& thread);
    [[nodiscard]] std::optional<Time> wakes_at(const Thread& thread) const;
    [[nodiscard]] bool advance();
    [[nodiscard]] std::string describe_stuck() const;
    void print_trace(const std::string& text) const;

    static inline Scheduler* current_ = nullptr;  // NOLINT(readability-identifier-naming)

    Random random_;
    Habits habits_;
    Time now_{};
    std::uint64_t steps_ = 0;
    std::uint64_t changes_ = 1;
    std::uint64_t until_switch_ = 1;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::vector<Thread*> runnable_;  // scratch
    Thread* running_ = nullptr;
    std::string failure_;
};

inline Time Clock::now() noexcept {
    return Scheduler::current().now();
}

/// For the trace: "r2/engine".
template <class Text>
void trace(const Text& text) {
    if (Scheduler::is_tracing) {
        Scheduler::current().trace(text);
    }
}

}  // namespace hvd::sim
