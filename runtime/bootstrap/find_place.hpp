// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "runtime/bootstrap/mpi_world.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/engine/config.hpp"

#include <memory>
#include <optional>

namespace hvd::rt {

/// The input of the search for the other ranks, and the MPI that was started for it.
struct PlaceSearch {
    const Environment& environment;
    const EngineConfig& config;
    const void* mpi_communicator = nullptr;  // address of the user's MPI_Comm
    int generation = 0;                      // tells this world from earlier ones
    int& next_generation;                    // of this process; a communicator's ranks agree on it

    std::optional<MpiWorld> mpi{};                      // of the communicator
    std::unique_ptr<coll::mpi::Session> started_mpi{};  // where nothing else would do
};

/// Finds out which launcher started this process, or takes the ranks of the communicator. Errors:
/// invalid_argument, unsupported, unavailable, timed_out (names the missing ranks).
[[nodiscard]] Result<WorldPlace> find_place(PlaceSearch& search, Deadline deadline);

}  // namespace hvd::rt
