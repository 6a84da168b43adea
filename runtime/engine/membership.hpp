// SPDX-License-Identifier: Apache-2.0
//
// Changes of the process sets, as blocking calls of all ranks.
#pragma once

#include "runtime/engine/engine.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace hvd::rt {

/// The result of adding a process set.
struct AddedSet {
    int id = -1;         // of the new set, or of the equal one that exists
    bool is_new = true;  // false: a set with these ranks exists already
    Outcome outcome = Outcome::finished;
};

/// Changes the process sets of a world. Every rank makes the same calls in the same order. A rank
/// makes one change at a time: the call of another thread waits for its turn.
///
/// Thread: any.
class Membership {
public:
    /// The referenced objects outlive this one.
    Membership(Engine& engine, TicketTable& tickets) noexcept
        : engine_(engine), tickets_(tickets) {}
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;
    ~Membership();

    /// Adds the set of `ranks` of the world. In progress: the deadline has passed; the addition
    /// stays pending, and the same call waits for it again. Errors: invalid_argument for ranks that
    /// are none of the world; mismatch where the ranks disagree.
    [[nodiscard]] Result<AddedSet> add(const std::vector<int>& ranks, Deadline deadline);

    /// Removes a set; in progress as for `add`. Errors: invalid_argument for an id that no set has,
    /// and for the world's; mismatch.
    [[nodiscard]] Result<Outcome> remove(int id, Deadline deadline);

private:
    /// The state of a call after it has waited for its turn.
    enum class Turn {
        of_another,   // still, and the deadline has passed
        of_new,       // the caller's, which is to begin its change
        of_the_same,  // the caller's, whose change an earlier call has begun
    };
    /// A mutex that is waited for with a deadline. ThreadSanitizer of GCC 12 misses how
    /// std::timed_mutex is locked by try_lock_until.
    class TimedMutex {
    public:
        void lock();
        [[nodiscard]] bool try_lock_until(Deadline::Clock::time_point end);
        void unlock();

    private:
        std::mutex mutex_;
        std::condition_variable unlocked_;
        bool is_locked_ = false;  // guarded by mutex_
    };
    using Lock = std::unique_lock<TimedMutex>;

    [[nodiscard]] Result<Turn> take_turn(Lock& lock, const Signature& wanted, Deadline deadline);
    [[nodiscard]] Status begin(std::string name, Signature wanted);
    void forget_pending();

    Engine& engine_;
    TicketTable& tickets_;
    TimedMutex mutex_;
    Operation* pending_ = nullptr;  // guarded by mutex_; nothing or the change that was begun last
    Signature wanted_;              // guarded by mutex_; what `pending_` was begun with
};

}  // namespace hvd::rt
