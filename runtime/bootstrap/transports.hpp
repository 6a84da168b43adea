// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/log.hpp"
#include "collectives/base/result.hpp"
#include "collectives/sum_order.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/engine/config.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace hvd::rt {

// The local group's segments.
inline constexpr std::size_t kControlSegment = 0;  // only in a world of one host
inline constexpr std::size_t kBackendSegment = 1;

/// How bytes get from this rank to the others.
struct Transports {
    std::unique_ptr<coll::LocalGroup>
        group;                              // of the ranks of this host, in the order of the world
    std::unique_ptr<coll::net::Mesh> mesh;  // of all ranks, where they are on several hosts
    std::vector<int> hosts;                 // by rank: equal numbers share memory
    coll::SumOrder order = coll::SumOrder::by_rank;
    bool is_hierarchical = false;  // NCCL connects the ranks of each host alone
};

/// Connects this rank with the others. A world of one host has the group alone; one of several
/// hosts has the mesh, and the group of each host whose ranks can share memory: where they cannot,
/// that is a warning, on which all ranks agree. Errors: timed_out, unavailable, invalid_argument.
[[nodiscard]] Result<Transports> connect_transports(WorldPlace& place,
                                                    const EngineConfig& config,
                                                    const Logger& log,
                                                    Deadline deadline);

}  // namespace hvd::rt
