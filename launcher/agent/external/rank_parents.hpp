// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/external/shim_protocol.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/agent/processes/process_table.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The processes that start the external ranks of this host: mpirun or its daemon, and the
/// ancestors of a daemon that is no descendant of the agent.
class RankParents final {
public:
    /// `on_end` is called when a watched parent has ended.
    RankParents(EventLoop& loop, std::function<void(pid_t parent)> on_end)
        : loop_(loop), on_end_(std::move(on_end)) {}

    /// The parent of this shim, by the agent's numbers; 0 where it is unknown. Ranks have few
    /// parents, and a look into /proc is slow, so that the shim's own word counts where it counts
    /// processes as the agent does.
    [[nodiscard]] pid_t parent_of(pid_t shim, const ShimClaim& claim);

    /// Watches for the parent's end, on kernels with pidfds (Linux 5.3); on others mpirun has to
    /// end its ranks. The shim notices a parent that has ended before.
    void watch(pid_t parent);

    /// Whether a rank is no descendant of the agent, as from the daemon of another host's mpirun.
    [[nodiscard]] bool has_non_descendant() const noexcept { return has_non_descendant_; }

    /// Removes the ancestors of ranks that are no descendants of the agent: mpirun's daemon, which
    /// srun may have given the variables of a rank, and which ends with mpirun.
    void remove_from(std::vector<Process>& processes) const;

private:
    EventLoop& loop_;
    std::function<void(pid_t)> on_end_;
    bool has_non_descendant_ = false;
    std::set<pid_t> parents_;
    std::map<pid_t, UniqueFd> watched_;
    std::map<pid_t, std::uint64_t> ancestors_;  // of non-descendants, and their start times
};

}  // namespace hvd::launch::agent
