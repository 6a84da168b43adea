// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/sweeper.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace hvd::launch {

/// On which hosts nothing of the job is left, and which processes are left after all. A host whose
/// agent is lost counts as done, and is swept by a new agent. Thread: io.
class HostEnds final {
public:
    /// `plan` and `fleet` outlive this object. `swept` is called whenever a sweep is over.
    HostEnds(IoThread& io, AgentFleet& fleet, const LaunchPlan& plan, std::function<void()> swept);

    [[nodiscard]] bool is_done(std::size_t host) const { return is_done_[host]; }
    [[nodiscard]] bool are_all_done() const;

    /// Its agent says that no process of the job is left there but these.
    void done(std::size_t host, const std::vector<Survivor>& survivors);

    /// Nothing more is known of it.
    void lost(std::size_t host) { is_done_[host] = true; }

    /// Ends what the lost agent has left there.
    void sweep(std::size_t host, std::chrono::seconds patience);
    [[nodiscard]] bool is_sweeping() const noexcept { return !sweeper_.is_idle(); }

    /// All of them, once.
    [[nodiscard]] std::vector<HostSurvivor> take_survivors();
    [[nodiscard]] std::vector<UnsweptHost> take_unswept() { return sweeper_.take_unswept(); }

private:
    AgentFleet& fleet_;
    const LaunchPlan& plan_;
    std::vector<bool> is_done_;  // by host
    std::vector<HostSurvivor> survivors_;
    Sweeper sweeper_;
};

}  // namespace hvd::launch
