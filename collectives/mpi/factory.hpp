// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/mpi/communicator.hpp"
#include "collectives/reactor.hpp"
#include "collectives/sum_order.hpp"

#include <memory>

namespace hvd::coll::mpi {

/// Collectives of the communicator's ranks through MPI. `reactor`, which outlives it, is what a
/// rank sleeps in. All ranks give the same order.
[[nodiscard]] std::unique_ptr<Backend> create(Communicator communicator,
                                              Reactor& reactor,
                                              SumOrder order = SumOrder::by_rank);

}  // namespace hvd::coll::mpi
