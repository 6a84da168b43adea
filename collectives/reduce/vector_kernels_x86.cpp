// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/kernels.hpp"

#include <cpuid.h>

namespace hvd::coll::kernels {
namespace {

[[nodiscard]] bool has_avx512() noexcept {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}

/// clang 14's __builtin_cpu_supports does not know it.
[[nodiscard]] bool has_f16c() noexcept {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

[[nodiscard]] bool has_avx2() noexcept {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();
}

}  // namespace

VectorKernels best_vector_kernels() noexcept {
    if (has_avx512() && has_avx2()) {
        return &avx512_kernel;
    }
    if (has_avx2()) {
        return &avx2_kernel;
    }
    return [](DataType, ReduceOp) noexcept -> VectorKernel { return nullptr; };
}

NarrowingKernels best_narrowing_kernels(Wire wire) noexcept {
    if (!has_avx2()) {
        return {};
    }
    return has_avx512() ? avx512_narrowing(wire) : avx2_narrowing(wire);
}

}  // namespace hvd::coll::kernels
