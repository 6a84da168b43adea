// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/engine/config.hpp"

namespace hvd::rt {

/// Leaves the ranks that have ended out of a world that may do without them, and numbers the others
/// anew, in the launcher's order. All of these call it. Errors: timed_out, unavailable; unsupported
/// where MPI is to carry the tensors.
[[nodiscard]] Status leave_out_lost_ranks(WorldPlace& place,
                                          const EngineConfig& config,
                                          Deadline deadline);

}  // namespace hvd::rt
