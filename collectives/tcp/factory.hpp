// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/shm/factory.hpp"
#include "collectives/sum_order.hpp"
#include "collectives/transport/tcp/mesh.hpp"

#include <memory>

namespace hvd::coll::tcp {

/// Collectives of ranks on any hosts. `mesh` outlives it; its data links are the backend's alone.
/// A waiting rank sleeps in `mesh.reactor()`, or in a reactor that watches it and the wake-up
/// descriptor of `memory`. That is what the ranks of this host share; nullptr: nothing.
[[nodiscard]] std::unique_ptr<Backend> create(net::Mesh& mesh,
                                              SumOrder order = SumOrder::by_rank,
                                              std::shared_ptr<shm::HostMemory> memory = nullptr);

}  // namespace hvd::coll::tcp
