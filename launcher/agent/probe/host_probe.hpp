// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/io/control_stream.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/agent/probe/limits.hpp"
#include "launcher/agent/probe/link_listener.hpp"
#include "launcher/agent/probe/link_meter.hpp"
#include "launcher/agent/probe/same_host.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// How many descriptors an agent needs for these ranks.
[[nodiscard]] std::size_t descriptors_for(const HostPlan& plan);

/// HostProbe what the launcher asks about this host before ranks start, or without any.
class HostProbe final {
public:
    HostProbe(EventLoop& loop, ControlStream& control);

    /// By which other agents of this machine find us.
    [[nodiscard]] const std::string& same_host_name() const noexcept { return same_host_.name(); }

    void on(const wire::Seek& seek);
    void on(const wire::Check& check);
    void on(const wire::PickPort& wanted);
    void on(const wire::OpenLink& wanted);
    void on(const wire::MeasureLink& wanted);
    void on(const wire::CloseLink& over);

    /// Ranks of `plan` are about to start: the problems for which they must not. Without a
    /// preflight question before, which costs a round trip, they are the ranks of the whole job,
    /// and their limits are looked at now.
    [[nodiscard]] std::vector<wire::Problem> check_start(const HostPlan& plan);

    void time_passed(std::chrono::steady_clock::time_point now);

    /// When `time_passed` has something to do.
    [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const;

private:
    [[nodiscard]] std::vector<wire::Problem> look_at_limits(const RankNeeds& needs);

    ControlStream& control_;
    SameHostSocket same_host_;
    LinkListener link_listener_;
    LinkMeter link_meter_;
    bool is_checked_ = false;
};

}  // namespace hvd::launch::agent
