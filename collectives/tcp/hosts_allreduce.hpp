// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/host_grid.hpp"
#include "collectives/algorithms/scratch.hpp"
#include "collectives/backend.hpp"
#include "collectives/shm/set_arena.hpp"
#include "collectives/shm/shm_endpoint.hpp"
#include "collectives/tcp/hosts_endpoint.hpp"
#include "collectives/tcp/tcp_endpoint.hpp"

#include <memory>
#include <optional>

namespace hvd::coll::tcp {

/// Allreduces of a set whose hosts have several members each, which share memory there: see
/// algorithms/hierarchical_allreduce.
///
/// Thread: progress lock.
class HostsAllreduce {
public:
    /// Whether the task gains by it. The same on all members.
    [[nodiscard]] static bool suits(const Task& task);

    /// `far` reaches all members, in the places that `grid` has. It and `memory` outlive this
    /// object.
    HostsAllreduce(TcpEndpoint& far, shm::HostMemory& memory, const ProcessSet& set, HostGrid grid);

    /// `pool` outlives the Work. Throws Exception: as SetArena::find.
    [[nodiscard]] std::unique_ptr<Work> start(ScratchPool& pool, const Task& task);

    /// Fails what runs and everything later. That of `far` is the owner's affair.
    void abort(const Error& cause) { arena_.abort(cause); }

private:
    [[nodiscard]] std::unique_ptr<Work> begin(ScratchPool& pool, const Task& task);

    TcpEndpoint& far_;
    HostGrid grid_;
    shm::SetArena arena_;
    std::optional<shm::ShmEndpoint> near_;  // once the arena is there
    std::optional<HostsEndpoint> at_;
};

}  // namespace hvd::coll::tcp
