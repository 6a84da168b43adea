// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/supervise/job_record.hpp"

#include <cstddef>

namespace hvd::launch {

/// Sends signals to the ranks of a job through their agents. jsrun may be on a host without ranks,
/// whose agent cannot tell whether there are any: that host hears of a signal as long as no rank
/// has started to which jsrun would pass it on.
///
/// Thread: io.
class RankSignals {
public:
    /// All outlive this object.
    RankSignals(AgentFleet& fleet, const LaunchPlan& plan, const JobRecord& record)
        : fleet_(fleet), plan_(plan), record_(record) {}

    /// To all ranks.
    void send(int signal);

    /// To a launcher on a host without ranks alone.
    void ask_bare_launcher(int signal);

private:
    [[nodiscard]] bool has_bare_launcher(std::size_t host) const;

    AgentFleet& fleet_;
    const LaunchPlan& plan_;
    const JobRecord& record_;
};

}  // namespace hvd::launch
