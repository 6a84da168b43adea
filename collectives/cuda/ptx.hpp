// SPDX-License-Identifier: Apache-2.0
//
// The kernels as this build has them: PTX, which the driver compiles for its GPU, and cubins, which
// a GPU runs as they are.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace hvd::coll::cuda {

struct Ptx {
    int capability = 0;     // 75 is 7.5: for GPUs of this compute capability and later
    std::string_view text;  // ends with a NUL that is not counted, as the driver wants it
    std::span<const std::byte> cubin;  // for GPUs of this major capability only
};

/// Ascending by capability. Empty where this build has no kernels: it had no nvcc.
[[nodiscard]] std::span<const Ptx> ptx_modules() noexcept;

/// The major version of the CUDA Toolkit that made the cubins.
[[nodiscard]] int toolkit_major() noexcept;

/// The one for a GPU: the last that it can take. nullptr where there is none.
[[nodiscard]] const Ptx* ptx_for(int capability) noexcept;

/// The cubin for a GPU; empty where there is none. `driver_version` is 13000 for CUDA 13.0. A
/// driver of another major version than the toolkit's is given none: it may not know the cubin's
/// format.
[[nodiscard]] std::span<const std::byte> cubin_for(int capability, int driver_version) noexcept;

}  // namespace hvd::coll::cuda
