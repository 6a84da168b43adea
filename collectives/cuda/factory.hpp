// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/device_tensors.hpp"
#include "collectives/staging.hpp"

#include <memory>

namespace hvd::coll::cuda {

/// Staging for CUDA's devices; nullptr where this build has no CUDA. Opens the driver with its
/// first use. `devices` is make_device_tensors', whose collectives it does not disturb; it outlives
/// the result.
[[nodiscard]] std::unique_ptr<Staging> make_staging(DeviceTensors* devices);

/// The GPU of this process for collectives on it; nullptr where this build has no CUDA. Opens the
/// driver with its first use.
[[nodiscard]] std::unique_ptr<DeviceTensors> make_device_tensors();

}  // namespace hvd::coll::cuda
