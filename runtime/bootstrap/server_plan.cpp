// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/server_plan.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>

namespace hvd::rt {
namespace {

// Below the ports that kernels give to outgoing connections (32768 and up).
constexpr std::uint32_t kFirstPort = 20'000;
constexpr std::uint32_t kPortSpan = 12'000;
constexpr std::uint32_t kPortStep = 1'511;  // prime: no two of the ports are the same
constexpr int kPorts = 8;
constexpr int kMostOfRange = 16;

/// The same on all hosts and in all versions (FNV-1a).
std::uint32_t hash(std::string_view text) noexcept {
    std::uint32_t value = 2'166'136'261U;
    for (const char character : text) {
        value = (value ^ static_cast<unsigned char>(character)) * 16'777'619U;
    }
    return value;
}

std::vector<std::uint16_t> ports_for(std::string_view job, const coll::net::PortRange& allowed) {
    std::vector<std::uint16_t> ports;
    if (allowed.first != 0) {
        const int last = std::min<int>(allowed.last, allowed.first + kMostOfRange - 1);
        for (int port = allowed.first; port <= last; ++port) {
            ports.push_back(static_cast<std::uint16_t>(port));
        }
        return ports;
    }
    for (std::uint32_t each = 0; each < kPorts; ++each) {
        const auto offset = (hash(job) % kPortSpan + each * kPortStep) % kPortSpan;
        ports.push_back(static_cast<std::uint16_t>(kFirstPort + offset));
    }
    return ports;
}

Result<std::string> required(const Environment& environment,
                             std::string_view name,
                             const coll::ExternalLaunch& launch) {
    const auto value = find(environment, name);
    if (!value || trim(*value).empty()) {
        return Error{Errc::invalid_argument, std::string(name) + " is not set: a world of " +
                                                 std::to_string(launch.size) +
                                                 " ranks on several hosts cannot connect under " +
                                                 std::string(describe(launch.launcher))};
    }
    return std::string(trim(*value));
}

Result<std::string> first_node(const Environment& environment, const coll::ExternalLaunch& launch) {
    constexpr std::string_view kNodes = "SLURM_STEP_NODELIST";
    HVD_TRY(const auto list, required(environment, kNodes, launch));
    const auto first = first_host(list);
    if (!first) {
        return Error{Errc::invalid_argument,
                     std::string(kNodes) + "='" + list + "' is no list of hosts"};
    }
    return *first;
}

}  // namespace

std::optional<std::string> first_host(std::string_view list) {
    std::string name;
    for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
        if (list[at] != '[') {
            name += list[at];
            continue;
        }
        const auto end = list.find(']', at);
        const auto number = list.substr(at + 1, list.find_first_of("-,]", at) - at - 1);
        if (end == std::string_view::npos || number.empty()) {
            return {};
        }
        name += number;
        at = end;
    }
    if (name.empty() || name.find_first_of("[] \t") != std::string::npos) {
        return {};
    }
    return name;
}

Result<ServerPlan> plan_server(const Environment& environment,
                               const coll::ExternalLaunch& launch,
                               const coll::net::PortRange& allowed,
                               int generation) {
    ServerPlan plan{.host = {},
                    .is_server = launch.rank == 0,
                    .ports = {},
                    .job = launch.job + "#" + std::to_string(generation)};
    plan.ports = ports_for(plan.job, allowed);
    if (launch.launcher != coll::Launcher::slurm) {
        HVD_TRY(plan.host, required(environment, kServerHost, launch));
        return plan;
    }
    HVD_TRY(plan.host, first_node(environment, launch));
    if (launch.node && launch.local_rank) {
        plan.is_server = *launch.node == 0 && *launch.local_rank == 0;
    }
    return plan;
}

}  // namespace hvd::rt
