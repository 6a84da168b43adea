// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/kernels_simd.hpp"

namespace hvd::coll::kernels {

VectorKernel avx2_kernel(DataType type, ReduceOp op) noexcept {
    return simd_kernel(type, op);
}

}  // namespace hvd::coll::kernels
