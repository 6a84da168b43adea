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
    const auto& topology = parts.topology;
    if (parts.communicator) {
        // No other way is taken silently.
        backends.push_back(
            mpi::create(std::move(*parts.communicator), *parts.reactor, parts.order));
    } else if (topology.size > 1) {
        std::shared_ptr<shm::HostMemory> memory;
        if (topology.local_size > 1 && parts.local_group != nullptr) {
            memory =
                shm::share(*parts.local_group, parts.local_segment, std::move(parts.local_ranks));
        }
        if (parts.mesh != nullptr) {
            backends.push_back(tcp::create(*parts.mesh, parts.order, memory));
        }
        if (memory) {
            const bool serves_world = topology.local_size == topology.size;
            backends.insert(serves_world ? backends.begin() : backends.end(),
                            shm::create(std::move(memory)));
        }
    }
    backends.push_back(self::create());
    auto* const across = parts.is_hierarchical ? backends.front().get() : nullptr;
    if (auto nccl = nccl::create(parts.devices, std::move(parts.nccl), across, parts.log)) {
        backends.push_back(std::move(nccl));
    }
    return backends;
}

Backend* select(std::span<const std::unique_ptr<Backend>> backends,
                const Task& task,
                const ProcessSet& set) {
    Backend* best = nullptr;
    int best_score = 0;
    for (const auto& backend : backends) {
        const int score = backend->score(task, set);
        if (score > best_score) {
            best = backend.get();
            best_score = score;
        }
    }
    return best;
}

}  // namespace hvd::coll
