// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hvd::launch::agent {

/// The life of an agent's session with its launcher, from Hello to AllGone. A machine without I/O;
/// its table is in session_life.cpp.
class SessionLife final {
public:
    enum class State : std::uint8_t {
        connected,  // the launcher has been told of this host, and plans
        running,    // ranks start, run or are ended
        clearing,   // every rank has ended; other processes of the job are ended
        settling,   // nothing is left; Slurm may still tell which signal ended the ranks
        draining,   // the launcher takes the last output
        reported,   // AllGone was sent; an agent that joined waits for the job's end
        over,
    };

    enum class Event : std::uint8_t {
        started,         // the launcher has sent the plan
        ranks_ended,     // and their ends were reported
        nothing_left,    // no process of the job lives on this host
        signal_awaited,  // the same, and Slurm has sent a signal that the agent has not got yet
        settled,         // the signal has come, or its time is over
        gave_up,         // KILL had its time: what is left is reported
        delivered,       // all output was taken
        released,        // nothing holds the agent in this state: it may leave
    };

    [[nodiscard]] State state() const noexcept { return state_; }
    [[nodiscard]] bool is(State state) const noexcept { return state_ == state; }

    /// Whether the event means something in this state; then it is the next state's turn.
    bool on(Event event) noexcept;

private:
    State state_ = State::connected;
};

}  // namespace hvd::launch::agent
