// SPDX-License-Identifier: Apache-2.0
//
// The kernels as this build has them: PTX, which the driver compiles for its GPU.
#pragma once

#include <span>
#include <string_view>

namespace hvd::coll::cuda {

struct Ptx {
    int capability = 0;     // 75 is 7.5: for GPUs of this compute capability and later
    std::string_view text;  // ends with a NUL that is not counted, as the driver wants it
};

/// Ascending by capability. Empty where this build has no kernels: it had no nvcc.
[[nodiscard]] std::span<const Ptx> ptx_modules() noexcept;

/// The one for a GPU: the last that it can take. nullptr where there is none.
[[nodiscard]] const Ptx* ptx_for(int capability) noexcept;

}  // namespace hvd::coll::cuda
