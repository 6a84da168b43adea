// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/narrowing_simd.hpp"

namespace hvd::coll::kernels {

VectorKernel avx512_kernel(DataType type, ReduceOp op) noexcept {
    return simd_kernel(type, op);
}

NarrowingKernels avx512_narrowing(Wire wire) noexcept {
    return simd_narrowing(wire);
}

}  // namespace hvd::coll::kernels
