// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/io/control_stream.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/agent/lifecycle/agent.hpp"
#include "launcher/agent/lifecycle/lease.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace hvd::launch::agent {

/// Ends the session when nothing was heard of the launcher for the time of its lease, and shows the
/// guard when that is, which ends the job if the agent no longer can.
class LauncherLease final {
public:
    using TimePoint = Lease::TimePoint;

    /// All of it outlives this object.
    LauncherLease(EventLoop& loop, ControlStream& control, const AgentSetup& setup)
        : loop_(loop), control_(control), setup_(setup) {}

    /// The launcher is on this machine, where it can be seen whether it is stopped.
    void launcher_is_local() noexcept { is_local_ = true; }

    /// A Ping came. A term of 0 lifts the lease.
    void renew(std::chrono::milliseconds term);

    /// Gives the control stream up if the lease is over. May handle what is ready in the loop, so
    /// not to be called by a handler.
    void check();

    /// The launcher has gone: the agent needs until `end` to end its ranks.
    void extend(TimePoint end);

    [[nodiscard]] std::optional<TimePoint> deadline() const noexcept {
        return control_.has_ended() ? std::nullopt : lease_.end();
    }

private:
    [[nodiscard]] bool has_been_heard();
    void prolong(TimePoint now);
    void show() const;
    [[nodiscard]] bool is_launcher_stopped() const;

    EventLoop& loop_;
    ControlStream& control_;
    const AgentSetup& setup_;
    Lease lease_;
    std::uint64_t heard_bytes_ = 0;  // of the launcher, when the lease was looked at last
    bool is_local_ = false;
    bool was_stopped_ = false;     // the launcher, when the lease was over last
    bool has_told_pause_ = false;  // since it was heard last
};

}  // namespace hvd::launch::agent
