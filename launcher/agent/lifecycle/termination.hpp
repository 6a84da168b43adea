// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace hvd::launch::agent {

/// How the processes of a host are ended: TERM, time to react, KILL until none is left. A machine
/// without I/O: the agent reports events and performs the returned actions.
class Termination final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    enum class Action : std::uint8_t {
        none,
        term_ranks,      // TERM to every rank that runs
        term_leftovers,  // TERM to everything else of the job
        kill,            // KILL to everything of the job
        give_up,         // KILL had its time; what is left is reported
    };

    /// Processes that outlive all ranks get TERM when the last rank has ended, and KILL after this
    /// time, or after the plan's grace where that is shorter.
    static constexpr auto kLeftoverGrace = std::chrono::milliseconds(1000);

    /// How long KILL is repeated: a process that forks faster than we look is met again.
    static constexpr auto kKillTime = std::chrono::milliseconds(1000);
    static constexpr auto kKillAgain = std::chrono::milliseconds(20);

    /// Somebody wants the end: TERM now and KILL after `grace`, at once when that is 0. A later
    /// call can only bring the KILL forward.
    [[nodiscard]] Action stop(std::chrono::milliseconds grace, TimePoint now);

    /// The ranks were sent a signal that asks them to end; a KILL comes only from others.
    void ask(std::chrono::milliseconds grace, TimePoint now) noexcept;

    /// Every rank has ended and was reaped, and others of the job still live. Where the end was
    /// asked for they have the rest of its grace: a rank may be a shell around its program.
    [[nodiscard]] Action leftovers(std::chrono::milliseconds grace, TimePoint now);

    /// `deadline` has passed.
    [[nodiscard]] Action time_passed(TimePoint now);

    [[nodiscard]] std::optional<TimePoint> deadline() const noexcept { return deadline_; }
    [[nodiscard]] bool is_stopping() const noexcept { return state_ != State::idle; }

    /// Whether somebody wanted the end, which may also come by itself.
    [[nodiscard]] bool is_wanted() const noexcept { return is_wanted_; }

private:
    enum class State : std::uint8_t { idle, asked, killing };

    [[nodiscard]] Action start_killing(TimePoint now);

    State state_ = State::idle;
    bool is_wanted_ = false;
    bool asked_leftovers_ = false;
    std::optional<TimePoint> asked_until_;
    std::optional<TimePoint> deadline_;  // of the grace, then of the next KILL
    TimePoint give_up_at_{};
};

}  // namespace hvd::launch::agent
