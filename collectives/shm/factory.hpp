// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <cstddef>
#include <memory>

namespace hvd::coll::shm {

/// Bytes of shared memory that the backend needs for `local_size` ranks.
[[nodiscard]] std::size_t segment_bytes(int local_size);

/// Collectives through the group's segment number `segment`, which no one else uses. The group must
/// outlive the backend.
[[nodiscard]] std::unique_ptr<Backend> create(LocalGroup& group, std::size_t segment);

}  // namespace hvd::coll::shm
