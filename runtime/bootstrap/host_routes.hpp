// SPDX-License-Identifier: Apache-2.0
//
// The addresses over which the ranks of several hosts have connected, for the log and for NCCL.
#pragma once

#include "collectives/base/log.hpp"
#include "collectives/rendezvous/agent_store.hpp"
#include "collectives/transport/tcp/mesh.hpp"

#include <string>
#include <vector>

namespace hvd::rt {

struct RouteReport {
    std::vector<coll::net::HostRoute> routes;
    std::string host;                   // this one
    coll::AgentStore* agent = nullptr;  // where the launcher is to know
    bool is_leader = false;             // this rank speaks for its host
};

/// Sets what NCCL takes its interfaces from, unless the user did; the leader of each host logs the
/// routes, and tells the launcher about each pair of hosts once.
void report_routes(RouteReport report, const Logger& log);

}  // namespace hvd::rt
