// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/pack_twin.hpp"

#include "collectives/cuda/adasum_device.cuh"
#include "collectives/cuda/pack_device.cuh"

#include <algorithm>
#include <array>

namespace hvd::test::gpu {
namespace {

namespace device = coll::cuda::device;
using coll::cuda::AdasumArguments;
using coll::cuda::kWarp;
using coll::cuda::PackArguments;

template <class Arguments>
using Thread = void (*)(const Arguments&, std::uint64_t warp, std::uint64_t warps, unsigned lane);

template <class Arguments, Thread<Arguments> kThread>
void run(const Arguments& arguments, unsigned blocks, unsigned threads) {
    const std::uint64_t warps = std::uint64_t{blocks} * threads / kWarp;
    for (std::uint64_t warp = 0; warp < warps; ++warp) {
        for (unsigned lane = 0; lane < kWarp; ++lane) {
            kThread(arguments, warp, warps, lane);
        }
    }
}

#define HVD_TWIN_ROW(from, to)                                                     \
    Kernel{"hvd_convert_" #from "_" #to, sizeof(device::from), sizeof(device::to), \
           &run<PackArguments, &device::convert<device::from, device::to>>},
#define HVD_ADASUM_ROWS(type)                                                                    \
    Kernel{"hvd_adasum_dots_" #type, sizeof(device::type), 0, nullptr,                           \
           &run<AdasumArguments, &device::adasum_dots<device::type>>},                           \
        Kernel{"hvd_adasum_combine_" #type, sizeof(device::type), sizeof(device::type), nullptr, \
               &run<AdasumArguments, &device::adasum_combine<device::type>>},
constexpr std::array kKernels{
    HVD_PACK_KERNELS(HVD_TWIN_ROW) HVD_ADASUM_TYPES(HVD_ADASUM_ROWS)
        Kernel{"hvd_adasum_totals", 0, 0, nullptr, &run<AdasumArguments, &device::adasum_totals>},
    Kernel{"hvd_copy", 1, 1, &run<PackArguments, &device::copy>}};
#undef HVD_ADASUM_ROWS
#undef HVD_TWIN_ROW

}  // namespace

const Kernel* find_kernel(std::string_view name) noexcept {
    const auto* const kernel =
        std::ranges::find_if(kKernels, [&](const Kernel& one) { return one.name == name; });
    return kernel == kKernels.end() ? nullptr : kernel;
}

}  // namespace hvd::test::gpu
