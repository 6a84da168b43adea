// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/host_routes.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {
namespace {

constexpr const char* kNcclInterfaces = "NCCL_SOCKET_IFNAME";

/// "by eth0 10.0.0.1: node2 10.0.0.2, node3 10.0.0.3; by ib0 ...".
std::string describe_routes(const std::vector<coll::net::HostRoute>& routes) {
    std::map<std::string, std::vector<std::string>> by_own_address;
    for (const auto& route : routes) {
        by_own_address[route.here.interface + " " + to_string(route.here.ip)].push_back(
            route.host + " " + to_string(route.there));
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
std::string nccl_interfaces(const std::vector<coll::net::HostRoute>& routes) {
    std::set<std::string> names;
    for (const auto& route : routes) {
        if (!route.here.interface.empty()) {
            names.insert(route.here.interface);
        }
    }
    return names.empty() ? "" : "=" + join(std::vector(names.begin(), names.end()), ",");
}

}  // namespace

void report_routes(RouteReport report, const Logger& log) {
    auto& routes = report.routes;
    if (const auto interfaces = nccl_interfaces(routes); !interfaces.empty()) {
        (void)set_env_default(kNcclInterfaces, interfaces);
    }
    if (routes.empty() || !report.is_leader) {
        return;
    }
    log.info("connected over tcp " + describe_routes(routes));
    std::erase_if(routes, [](const auto& route) { return !route.is_reported_here; });
    if (report.agent != nullptr && !routes.empty()) {
        // For people, who find all of it in the log.
        constexpr std::size_t kMostShown = 4096;
        auto text = report.host + " " + describe_routes(routes);
        if (text.size() > kMostShown) {
            text.resize(kMostShown);
            text += "...";
        }
        (void)report.agent->report(coll::ReportKind::connected, -1, text);
    }
}

}  // namespace hvd::rt
