// SPDX-License-Identifier: Apache-2.0
//
// For CPUs that have no vector kernels of their own: the generic ones do everything.
#include "collectives/reduce/kernels.hpp"

namespace hvd::coll::kernels {

VectorKernels best_vector_kernels() noexcept {
    return [](DataType, ReduceOp) noexcept -> VectorKernel { return nullptr; };
}

NarrowingKernels best_narrowing_kernels(Wire /*wire*/) noexcept {
    return {};
}

}  // namespace hvd::coll::kernels
