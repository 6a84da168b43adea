// SPDX-License-Identifier: Apache-2.0
//
// The addresses over which the ranks of several hosts have connected, told to people and to NCCL.
#include "collectives/base/text.hpp"
#include "runtime/bootstrap/world.hpp"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {
namespace {

constexpr const char* kNcclInterfaces = "NCCL_SOCKET_IFNAME";

/// "by eth0 10.0.0.1: node2 10.0.0.2, node3 10.0.0.3; by ib0 ...".
std::string describe_ways(const std::vector<coll::net::HostRoute>& ways) {
    std::map<std::string, std::vector<std::string>> by_own_address;
    for (const auto& way : ways) {
        by_own_address[way.here.interface + " " + to_string(way.here.ip)].push_back(
            way.host + " " + to_string(way.there));
    }
    std::vector<std::string> parts;
    parts.reserve(by_own_address.size());
    for (const auto& [own, others] : by_own_address) {
        parts.push_back("by " + own + ": " + join(others, ", "));
    }
    return join(parts, "; ");
}

/// NCCL takes the interfaces that were found to work: by itself it looks at names only, and may
/// take docker's. "=": names, not their beginnings.
std::string nccl_interfaces(const std::vector<coll::net::HostRoute>& ways) {
    std::set<std::string> names;
    for (const auto& way : ways) {
        if (!way.here.interface.empty()) {
            names.insert(way.here.interface);
        }
    }
    return names.empty() ? "" : "=" + join(std::vector(names.begin(), names.end()), ",");
}

}  // namespace

/// Tells the choice, and NCCL: to the log once for each host, to the launcher once for each pair.
void World::use_ways(std::vector<coll::net::HostRoute> ways,
                     const std::string& host,
                     const Logger& log) {
    if (const auto interfaces = nccl_interfaces(ways); !interfaces.empty()) {
        (void)set_env_default(kNcclInterfaces, interfaces);
    }
    if (ways.empty() || topology_.local_rank != 0) {
        return;
    }
    log.info("connected over tcp " + describe_ways(ways));
    std::erase_if(ways, [](const auto& way) { return !way.is_told_here; });
    if (agent_ && !ways.empty()) {
        // For people, who find all of it in the log.
        constexpr std::size_t kMostShown = 4096;
        auto text = host + " " + describe_ways(ways);
        if (text.size() > kMostShown) {
            text.resize(kMostShown);
            text += "...";
        }
        (void)agent_->report(coll::ReportKind::connected, -1, text);
    }
}

}  // namespace hvd::rt
