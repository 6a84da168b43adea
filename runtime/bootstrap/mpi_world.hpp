// SPDX-License-Identifier: Apache-2.0
//
// The part of MPI in a world: whether its ranks' tensors travel by it, and worlds that are made of
// a communicator of the user's. The control plane never uses it once the ranks have met.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "collectives/mpi/session.hpp"
#include "collectives/sum_order.hpp"
#include "collectives/topology.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/engine/config.hpp"

#include <memory>
#include <optional>

namespace hvd::rt {

/// A world's MPI.
struct MpiWorld {
    std::unique_ptr<coll::mpi::Session> session;
    coll::mpi::Communicator communicator;  // of all ranks of the world
};

/// Whether this installation has a plugin for any MPI.
[[nodiscard]] bool is_mpi_built();

/// Checks the conditions of HOROVOD_CPU_OPERATIONS=mpi before ranks wait for each other. Marks
/// the names of this world, so that ranks with another setting do not join it. Errors: unsupported
/// where horovodrun has started the ranks without an mpirun.
[[nodiscard]] Status prepare_mpi(WorldPlace& place, const Environment& environment);

/// After the ranks have met: starts MPI, which must see the world as its launcher told it. Blocks
/// until all ranks call it. Errors: unsupported, invalid_argument, timed_out, internal; with the
/// remedy. Where MPI_Init has not returned by the deadline, the process ends.
[[nodiscard]] Result<MpiWorld> join_mpi(const WorldPlace& place,
                                        const EngineConfig& config,
                                        const Environment& environment,
                                        Deadline deadline);

/// Whether MPI may choose the order of sums: where there are several hosts, and no rank wants
/// HOROVOD_DETERMINISTIC. Blocks until all ranks call it. Errors: timed_out, internal.
[[nodiscard]] Result<coll::SumOrder> agree_on_order(coll::mpi::Communicator& all,
                                                    const coll::Topology& topology,
                                                    const EngineConfig& config,
                                                    Deadline deadline);

/// The world of a communicator of the user's (the address of an MPI_Comm), whose ranks all call it.
[[nodiscard]] Result<MpiWorld> join_communicator(const void* communicator,
                                                 const EngineConfig& config,
                                                 const Environment& environment,
                                                 Deadline deadline);

/// Whether MPI knows this process only, so that it cannot tell the ranks of a job. Errors:
/// internal.
[[nodiscard]] Result<bool> is_alone(const MpiWorld& mpi);

/// The error where it does, and the launcher has started several ranks: each would be alone.
[[nodiscard]] Error alone_in_mpi(const MpiWorld& mpi, const coll::ExternalLaunch& launch);

/// Where it is, on all its ranks, the whole world that horovodrun --mpi started, so that its agent
/// knows these ranks: a number of this world that none of them has used. Each tells its next one:
/// they may have been in different worlds before. Else nothing. All ranks call it. Errors:
/// timed_out, internal.
[[nodiscard]] Result<std::optional<int>> agree_on_generation(MpiWorld& mpi,
                                                             const Environment& environment,
                                                             int own,
                                                             Deadline deadline);

/// Where this rank stands in it. The ranks of one host get a key that MPI carries; those of
/// several by an address, which MPI carries too. All ranks call it. Errors: timed_out, unavailable,
/// internal.
[[nodiscard]] Result<WorldPlace> place_by_communicator(MpiWorld& mpi,
                                                       const EngineConfig& config,
                                                       const Environment& environment,
                                                       Deadline deadline);

/// The world of an MPI that another part of this process has started and that this thread may
/// call; nothing where there is none, or where it is not the launcher's. Errors: timed_out.
[[nodiscard]] Result<std::optional<MpiWorld>> find_started_mpi(const Environment& environment,
                                                               const coll::ExternalLaunch& launch,
                                                               Deadline deadline);

}  // namespace hvd::rt
