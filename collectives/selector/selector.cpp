// SPDX-License-Identifier: Apache-2.0
#include "collectives/selector/selector.hpp"

#include "collectives/mpi/factory.hpp"
#include "collectives/self/factory.hpp"
#include "collectives/shm/factory.hpp"
#include "collectives/tcp/factory.hpp"

#include <utility>

namespace hvd::coll {

std::size_t local_segment_bytes(const Topology& topology) {
    return topology.local_size > 1 ? shm::segment_bytes(topology.local_size) : 0;
}

std::vector<std::unique_ptr<Backend>> create_backends(BackendParts parts) {
    std::vector<std::unique_ptr<Backend>> backends;
    if (parts.communicator) {
        backends.push_back(
            mpi::create(std::move(*parts.communicator), *parts.reactor, parts.order));
        return backends;  // no other way is taken silently
    }
    const auto& topology = parts.topology;
    if (topology.size == 1) {
        backends.push_back(self::create());
    }
    if (topology.size > 1 && topology.local_size == topology.size && parts.local_group != nullptr) {
        backends.push_back(shm::create(*parts.local_group, parts.local_segment));
    }
    if (topology.size > 1 && parts.mesh != nullptr) {
        backends.push_back(tcp::create(*parts.mesh));
    }
    return backends;
}

Backend* select(std::span<const std::unique_ptr<Backend>> backends, const Task& task) {
    Backend* best = nullptr;
    int best_score = 0;
    for (const auto& backend : backends) {
        const int score = backend->score(task);
        if (score > best_score) {
            best = backend.get();
            best_score = score;
        }
    }
    return best;
}

}  // namespace hvd::coll
