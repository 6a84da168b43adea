// SPDX-License-Identifier: Apache-2.0
//
// The loops behind Reducer. Private to this folder. The files that include it are compiled for
// different CPUs: no function of the standard library may be called in them, because the linker
// would keep one copy for all.
#pragma once

#include "collectives/types.hpp"

#include <cstddef>

namespace hvd::coll::kernels {

struct ReduceArgs {
    const std::byte* const* inputs = nullptr;
    int input_count = 0;
    std::byte* const* outputs = nullptr;
    int output_count = 0;
    int taken_count = 0;    // the first outputs, whose cache lines another CPU holds
    std::size_t first = 0;  // element to begin with
    std::size_t count = 0;  // elements, those before `first` included
    double prescale = 1;
    double postscale = 1;
    int divisor = 1;
};

/// Handles all elements from `first` on.
using Kernel = void (*)(const ReduceArgs& args);

/// Handles as many elements from 0 on as fit whole vectors, and returns how many.
using VectorKernel = std::size_t (*)(const ReduceArgs& args);

/// The loops behind Narrowing, of f32.
struct NarrowingArgs {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t count = 0;
    double factor = 1;
    int divisor = 1;  // for the way back
};

/// Each as VectorKernel.
struct NarrowingKernels {
    std::size_t (*narrow)(const NarrowingArgs& args) = nullptr;
    std::size_t (*widen)(const NarrowingArgs& args) = nullptr;
};

/// For every meaningful combination, else nullptr. Scaled: prescale or postscale is not 1, or the
/// divisor is not 1 and the type is an integer.
[[nodiscard]] Kernel generic_kernel(DataType type, ReduceOp op, bool is_scaled) noexcept;

/// Which vector kernel does a sum without integer scaling; nullptr for everything else.
using VectorKernels = VectorKernel (*)(DataType, ReduceOp) noexcept;

/// The best that this CPU can run.
[[nodiscard]] VectorKernels best_vector_kernels() noexcept;

/// The same for f32 that travels as f16 or bf16; nullptr: there are none.
[[nodiscard]] NarrowingKernels best_narrowing_kernels(Wire wire) noexcept;

[[nodiscard]] VectorKernel avx2_kernel(DataType type, ReduceOp op) noexcept;
[[nodiscard]] VectorKernel avx512_kernel(DataType type, ReduceOp op) noexcept;
[[nodiscard]] NarrowingKernels avx2_narrowing(Wire wire) noexcept;
[[nodiscard]] NarrowingKernels avx512_narrowing(Wire wire) noexcept;

}  // namespace hvd::coll::kernels
