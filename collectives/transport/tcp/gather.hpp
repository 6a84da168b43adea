// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/mesh.hpp"

#include <cstddef>
#include <vector>

namespace hvd::coll::net {

/// One byte of every rank, by rank, on all ranks, over the control connections: for what ranks must
/// agree on before anything else uses these. All ranks call it; blocks. Errors: timed_out,
/// unavailable, both naming the rank.
[[nodiscard]] Result<std::vector<std::byte>> gather_bytes(Mesh& mesh,
                                                          std::byte own,
                                                          Deadline deadline);

}  // namespace hvd::coll::net
