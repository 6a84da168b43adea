// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/mpi/communicator.hpp"
#include "collectives/reactor.hpp"

#include <memory>

namespace hvd::coll::mpi {

/// Collectives of the communicator's ranks through MPI. `reactor`, which outlives it, is what a
/// rank sleeps in.
[[nodiscard]] std::unique_ptr<Backend> create(Communicator communicator, Reactor& reactor);

}  // namespace hvd::coll::mpi
