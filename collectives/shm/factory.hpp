// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace hvd::coll::shm {

/// Bytes of shared memory that the backend needs for `local_size` ranks.
[[nodiscard]] std::size_t segment_bytes(int local_size);

/// Collectives of the ranks of the group and of sets of them, through the group's segment number
/// `segment`, which no one else uses, and through the file behind the segments. `ranks` are the
/// group's ranks as ranks of the world; empty: the same numbers. The group outlives the backend.
[[nodiscard]] std::unique_ptr<Backend> create(LocalGroup& group,
                                              std::size_t segment,
                                              std::vector<int> ranks = {});

}  // namespace hvd::coll::shm
