// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/control_stream.hpp"
#include "launcher/agent/event_loop.hpp"
#include "launcher/agent/link_listener.hpp"
#include "launcher/agent/link_meter.hpp"
#include "launcher/agent/machine_mark.hpp"
#include "launcher/plan/process_spec.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace hvd::launch::agent {

/// How many descriptors an agent needs for these ranks.
[[nodiscard]] std::size_t descriptors_for(const HostPlan& plan);

/// Answers what the launcher asks about this host before ranks start, or without any.
class Answers final {
public:
    Answers(EventLoop& loop, ControlStream& control);

    /// By which other agents of this machine find us.
    [[nodiscard]] const std::string& mark() const noexcept { return mark_.name(); }

    void on(const wire::Seek& seek);
    void on(const wire::Check& check);
    void on(const wire::PickPort& wanted);
    void on(const wire::OpenLink& wanted);
    void on(const wire::MeasureLink& wanted);
    void on(const wire::CloseLink& over);

    void time_passed(std::chrono::steady_clock::time_point now);

    /// When `time_passed` has something to do.
    [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const;

private:
    ControlStream& control_;
    MachineMark mark_;
    LinkListener link_listener_;
    LinkMeter link_meter_;
};

}  // namespace hvd::launch::agent
