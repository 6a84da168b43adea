// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/orphan_cleanup.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace hvd::launch {

/// On which hosts nothing of the job is left, and which processes are left after all. A host whose
/// agent is lost counts as done, and is cleaned up by a new agent. Thread: io.
class HostEnds final {
public:
    /// `plan` and `fleet` outlive this object. `cleaned` is called whenever a cleanup is over.
    HostEnds(IoThread& io,
             AgentFleet& fleet,
             const LaunchPlan& plan,
             std::function<void()> cleaned);

    [[nodiscard]] bool is_done(std::size_t host) const { return is_done_[host]; }
    [[nodiscard]] bool are_all_done() const;

    /// Its agent says that no process of the job is left there but these.
    void done(std::size_t host, const std::vector<Survivor>& survivors);

    /// Nothing more is known of it.
    void lost(std::size_t host) { is_done_[host] = true; }

    /// Ends what the lost agent has left there.
    void clean_up(std::size_t host, std::chrono::seconds timeout);
    [[nodiscard]] bool is_cleaning_up() const noexcept { return !cleanup_.is_idle(); }

    /// All of them, once.
    [[nodiscard]] std::vector<HostSurvivor> take_survivors();
    [[nodiscard]] std::vector<UnsweptHost> take_unswept() { return cleanup_.take_unswept(); }

private:
    AgentFleet& fleet_;
    const LaunchPlan& plan_;
    std::vector<bool> is_done_;  // by host
    std::vector<HostSurvivor> survivors_;
    OrphanCleanup cleanup_;
};

}  // namespace hvd::launch
