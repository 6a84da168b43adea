// SPDX-License-Identifier: Apache-2.0
//
// Request and facts → plan: a pure function. --dry-run prints the plan; the agents run it.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/model/launch_request.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// A host whose agent has answered.
struct PlanHost {
    Host host;            // without slots: they are counted
    std::string starter;  // how its agent was started: "local", "ssh"
    HostFacts facts;

    [[nodiscard]] bool is_here() const { return starter == kLocalStarter; }
};

/// As of merge_machines for hosts alone.
[[nodiscard]] Status merge_machines(std::vector<PlanHost>& hosts,
                                    const std::vector<std::size_t>& machines);

/// The values that a plan takes over from the process of horovodrun.
struct LaunchContext {
    std::string cwd;
    std::string job_id;  // 32 hexadecimal digits
    Environment environment;
};

struct Planned {
    LaunchPlan plan;
    std::vector<std::string> warnings;  // it works, but worse than asked
};

/// The plan has a HostPlan for each host, in their order; one that gets no rank has
/// none in it. Errors: invalid_argument with both numbers, or the value and the remedy, when it
/// cannot be done as asked. Never plans fewer ranks than were asked for.
[[nodiscard]] Result<Planned> make_plan(const LaunchRequest& request,
                                        const LaunchContext& context,
                                        std::span<const PlanHost> hosts);

}  // namespace hvd::launch
