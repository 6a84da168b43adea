// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/staging.hpp"

#include <memory>

namespace hvd::coll::cuda {

/// Staging for CUDA's devices; nullptr where this build has no CUDA. Opens the driver with its
/// first use.
[[nodiscard]] std::unique_ptr<Staging> make_staging();

}  // namespace hvd::coll::cuda
