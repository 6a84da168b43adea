// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/planner.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hvd::test {

inline constexpr auto kJob = "0123456789abcdef0123456789abcdef";

/// Plans for the hosts of the request, in the order of `facts`.
inline Result<launch::Planned> plan_on(const launch::LaunchRequest& request,
                                       const std::vector<launch::HostFacts>& facts,
                                       const std::string& starter = "local",
                                       Environment environment = {}) {
    std::vector<launch::PlanHost> hosts;
    for (std::size_t index = 0; index < facts.size(); ++index) {
        hosts.push_back(
            {.host = request.hosts.list[index], .starter = starter, .facts = facts[index]});
    }
    return make_plan(
        request, {.cwd = "/data", .job_id = kJob, .environment = std::move(environment)}, hosts);
}

}  // namespace hvd::test
