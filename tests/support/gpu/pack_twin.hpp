// SPDX-License-Identifier: Apache-2.0
//
// The kernels of collectives/cuda/pack.cu on the host: the same source, the same arguments.
#pragma once

#include "collectives/cuda/adasum_arguments.hpp"
#include "collectives/cuda/pack_arguments.hpp"

#include <string_view>

namespace hvd::test::gpu {

struct Kernel {
    std::string_view name;
    std::size_t read_bytes;     // of an element
    std::size_t written_bytes;  // of an element

    /// Runs every thread of a launch, one after the other.
    void (*run)(const coll::cuda::PackArguments& arguments, unsigned blocks, unsigned threads);

    /// The same of a kernel of Adasum, which has no `run`.
    void (*run_adasum)(const coll::cuda::AdasumArguments& arguments,
                       unsigned blocks,
                       unsigned threads) = nullptr;
};

/// nullptr where no kernel has this name.
[[nodiscard]] const Kernel* find_kernel(std::string_view name) noexcept;

}  // namespace hvd::test::gpu
