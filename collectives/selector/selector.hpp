// SPDX-License-Identifier: Apache-2.0
//
// Which backends this build and this world have, in one explicit list, and which of them runs a
// task.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/mpi/communicator.hpp"
#include "collectives/nccl/factory.hpp"
#include "collectives/reactor.hpp"
#include "collectives/sum_order.hpp"
#include "collectives/topology.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "collectives/transport/tcp/mesh.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hvd::coll {

/// The parts from which the backends are made.
struct BackendParts {
    Topology topology;
    LocalGroup* local_group = nullptr;  // the ranks of this host, where there are several; outlives
                                        // the backends
    std::size_t local_segment = 0;      // the group's segment that the backends may use
    std::vector<int> local_ranks{};     // its ranks as ranks of the world; empty: the same numbers
    net::Mesh* mesh = nullptr;          // the ranks of all hosts, where there is one; outlives them
    std::optional<mpi::Communicator> communicator{};  // of all ranks, where MPI was asked for: it
                                                      // then does everything
    SumOrder order = SumOrder::by_rank;               // of ranks on several hosts
    Reactor* reactor = nullptr;        // what the engine sleeps in, for MPI; outlives them
    DeviceTensors* devices = nullptr;  // of tensors that stay there, if any do; outlives them
    nccl::Options nccl{};
    bool is_hierarchical = false;  // NCCL connects the ranks of a host, the first backend the hosts
    Logger log{"", LogLevel::warn};
};

/// Bytes of the local group's segment that `create_backends` needs.
[[nodiscard]] std::size_t local_segment_bytes(const Topology& topology);

/// Those that can serve this world and its sets. The first one, which serves the world, is the same
/// on every rank; a rank that is alone on its host has no shm, which no set of its needs.
[[nodiscard]] std::vector<std::unique_ptr<Backend>> create_backends(BackendParts parts);

/// The backend with the highest score, the first among equals; nullptr when none can do it. Pure:
/// the same task and set give the same position on every member.
[[nodiscard]] Backend* select(std::span<const std::unique_ptr<Backend>> backends,
                              const Task& task,
                              const ProcessSet& set);

}  // namespace hvd::coll
