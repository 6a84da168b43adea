// SPDX-License-Identifier: Apache-2.0
//
// The questions that both a job and the doctor ask the agents before ranks start.
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/fleet/wall_clock.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hvd::launch {

/// Asks which hosts are one machine, whatever they are called. Gives each host the first one that
/// is its machine, mostly itself; a host without facts is not asked. Whether all have answered, see
/// `has_answered`.
struct Machines {
    std::vector<std::size_t> first;  // by host
    std::vector<bool> has_answered;  // by host
};
[[nodiscard]] Machines find_machines(AgentFleet& fleet,
                                     std::span<const std::optional<HostFacts>> facts,
                                     const AgentFleet::Timeout& timeout);

/// The problems that keep the ranks of a host from running there, and the offset of its wall clock
/// where it is another machine.
struct CheckedHost {
    std::vector<wire::Problem> problems;
    NcclFile nccl{};  // for an examination
    std::optional<ClockReading> clock{};
};

/// `checks` are wire::Check messages by host. Nothing for a host that has not answered.
[[nodiscard]] std::vector<std::optional<CheckedHost>>
check_hosts(AgentFleet& fleet, std::vector<Frame> checks, const AgentFleet::Timeout& timeout);

}  // namespace hvd::launch
