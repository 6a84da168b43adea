// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace hvd::coll::shm {

struct HostMemory;

/// Bytes of shared memory that `share` needs for `local_size` ranks.
[[nodiscard]] std::size_t segment_bytes(int local_size);

/// The memory for collectives of the group's ranks: its segment number `segment`, which no one else
/// uses, and the file behind the segments. `ranks` are the group's ranks as ranks of the world;
/// empty: the same numbers. The group outlives it.
[[nodiscard]] std::shared_ptr<HostMemory> share(LocalGroup& group,
                                                std::size_t segment,
                                                std::vector<int> ranks = {});

/// Collectives of the ranks of the group and of sets of them.
[[nodiscard]] std::unique_ptr<Backend> create(std::shared_ptr<HostMemory> memory);

}  // namespace hvd::coll::shm
