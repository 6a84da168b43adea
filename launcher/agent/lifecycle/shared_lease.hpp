// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace hvd::launch::agent {

/// Memory that the guard and its agent share: when the agent's lease ends. An agent that hangs, or
/// was stopped, cannot see to the end of its lease; the guard reads it here.
class SharedLease final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// Before the fork. Without memory for it there is no lease to be seen.
    SharedLease();

    void post(std::optional<TimePoint> end) noexcept;
    [[nodiscard]] std::optional<TimePoint> end() const noexcept;

private:
    using Word = std::atomic<std::int64_t>;
    static_assert(Word::is_always_lock_free, "it works between processes");

    struct Unmap {
        void operator()(Word* word) const noexcept;
    };

    std::unique_ptr<Word, Unmap> end_ns_;  // 0: none
};

/// Whether the guard must take the agent for dead: its lease is over, and so is the time to do
/// something about it. It is looked at twice, because after a pause of the whole machine the guard
/// may be the first to go on. A machine without I/O.
class HungAgent final {
public:
    using TimePoint = SharedLease::TimePoint;

    /// An agent whose lease is over says within this time that it is about to end its ranks, by a
    /// later end.
    static constexpr auto kAgentsTime = std::chrono::milliseconds(250);
    static constexpr auto kSecondLook = std::chrono::milliseconds(100);

    /// `lease_end` is what the board says now.
    [[nodiscard]] bool is_certain(std::optional<TimePoint> lease_end, TimePoint now) noexcept;

    /// When to look next; nothing while there is no lease.
    [[nodiscard]] std::optional<TimePoint> next_look() const noexcept { return next_look_; }

private:
    std::optional<TimePoint> suspected_;  // the end of lease that was over at the last look
    std::optional<TimePoint> next_look_;
};

}  // namespace hvd::launch::agent
