// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/host_probe.hpp"

#include "collectives/base/wall_clock.hpp"
#include "collectives/transport/tcp/port_holder.hpp"
#include "launcher/agent/io/clock.hpp"
#include "launcher/agent/probe/host_facts.hpp"
#include "launcher/agent/probe/nccl_file.hpp"
#include "launcher/agent/probe/preflight.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace hvd::launch::agent {

std::size_t descriptors_for(const HostPlan& plan) {
    constexpr std::size_t kOwn = 64;
    constexpr std::size_t kPerRank = 8;  // three streams and connections to our socket
    return kOwn + kPerRank * plan.ranks.size();
}

HostProbe::HostProbe(EventLoop& loop, ControlStream& control)
    : control_(control),
      link_listener_(loop),
      link_meter_(loop, [this](const wire::LinkMeasured& measured) { control_.send(measured); }) {}

void HostProbe::on(const wire::Seek& seek) {
    control_.send(wire::Found{.marks = find_same_host(seek.marks)});
}

void HostProbe::on(const wire::Check& check) {
    is_checked_ = true;
    auto problems = find_problems(check.job, check.plan);
    auto limits = look_at_limits({.ranks = check.plan.ranks.size(),
                                  .world = static_cast<std::size_t>(std::max(check.np, 0)),
                                  .descriptors = descriptors_for(check.plan),
                                  .is_examination = check.is_examination});
    std::ranges::move(limits, std::back_inserter(problems));
    auto nccl = check.is_examination ? find_nccl(check.job, check.plan) : NcclFile{};
    control_.send(wire::Checked{
        .problems = std::move(problems), .nccl = std::move(nccl), .wall_ns = wall_clock_ns()});
}

std::vector<wire::Problem> HostProbe::check_start(const HostPlan& plan) {
    if (is_checked_) {
        return {};
    }
    return look_at_limits({.ranks = plan.ranks.size(),
                           .world = plan.ranks.size(),
                           .descriptors = descriptors_for(plan)});
}

/// Notes to the launcher the limits that ranks may reach, and returns those that they certainly
/// reach.
std::vector<wire::Problem> HostProbe::look_at_limits(const RankNeeds& needs) {
    if (auto warning = warn_of_small_shm(); !warning.empty()) {
        control_.send(wire::Note{.text = std::move(warning)});
    }
    auto found = judge(read_limits(), needs);
    for (auto& warning : found.warnings) {
        control_.send(wire::Note{.text = std::move(warning)});
    }
    return std::move(found.problems);
}

void HostProbe::on(const wire::PickPort& wanted) {
    wire::PortPicked picked{.port = find_port(wanted.first, wanted.last).value_or(0)};
    if (picked.port == 0) {
        const coll::net::IpAddress everywhere{.is_v6 = true};  // of IPv4 too
        picked.taken = coll::net::tell_port_holders(
            everywhere, {.first = static_cast<std::uint16_t>(wanted.first),
                         .last = static_cast<std::uint16_t>(wanted.last)});
    }
    control_.send(std::move(picked));
}

void HostProbe::on(const wire::OpenLink& wanted) {
    control_.send(link_listener_.open(wanted));
}

void HostProbe::on(const wire::MeasureLink& wanted) {
    link_meter_.measure(wanted);
}

void HostProbe::on(const wire::CloseLink& over) {
    link_listener_.close(over.id);
}

void HostProbe::time_passed(std::chrono::steady_clock::time_point now) {
    link_listener_.time_passed(now);
    link_meter_.time_passed(now);
}

std::optional<std::chrono::steady_clock::time_point> HostProbe::deadline() const {
    const auto listener = link_listener_.deadline();
    const auto meter = link_meter_.deadline();
    return listener && meter ? std::min(listener, meter) : (listener ? listener : meter);
}

}  // namespace hvd::launch::agent
