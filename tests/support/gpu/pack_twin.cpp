// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/pack_twin.hpp"

#include "collectives/cuda/pack_device.cuh"

#include <algorithm>
#include <array>

namespace hvd::test::gpu {
namespace {

namespace device = coll::cuda::device;
using coll::cuda::kWarp;
using coll::cuda::PackArguments;

using Thread = void (*)(const PackArguments&,
                        std::uint64_t warp,
                        std::uint64_t warps,
                        unsigned lane);

template <Thread kThread>
void run(const PackArguments& arguments, unsigned blocks, unsigned threads) {
    const std::uint64_t warps = std::uint64_t{blocks} * threads / kWarp;
    for (std::uint64_t warp = 0; warp < warps; ++warp) {
        for (unsigned lane = 0; lane < kWarp; ++lane) {
            kThread(arguments, warp, warps, lane);
        }
    }
}

#define HVD_TWIN_ROW(from, to)                                                     \
    Kernel{"hvd_convert_" #from "_" #to, sizeof(device::from), sizeof(device::to), \
           &run<&device::convert<device::from, device::to>>},
constexpr std::array kKernels{HVD_PACK_KERNELS(HVD_TWIN_ROW)
                                  Kernel{"hvd_copy", 1, 1, &run<&device::copy>}};
#undef HVD_TWIN_ROW

}  // namespace

const Kernel* find_kernel(std::string_view name) noexcept {
    const auto* const kernel =
        std::ranges::find_if(kKernels, [&](const Kernel& one) { return one.name == name; });
    return kernel == kKernels.end() ? nullptr : kernel;
}

}  // namespace hvd::test::gpu
