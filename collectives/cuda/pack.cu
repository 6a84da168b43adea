// SPDX-License-Identifier: Apache-2.0
//
// The kernels, under the names by which the driver finds them.
#include "collectives/cuda/adasum_device.cuh"
#include "collectives/cuda/pack_device.cuh"

namespace device = hvd::coll::cuda::device;
using hvd::coll::cuda::AdasumArguments;
using hvd::coll::cuda::kWarp;
using hvd::coll::cuda::PackArguments;

namespace {

struct Place {
    std::uint64_t warp;
    std::uint64_t warps;
    unsigned lane;
};

__device__ __forceinline__ Place place() {
    const std::uint64_t thread = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    return {thread / kWarp, std::uint64_t{gridDim.x} * blockDim.x / kWarp,
            static_cast<unsigned>(thread % kWarp)};
}

}  // namespace

#define HVD_KERNEL(from, to)                                                                    \
    extern "C" __global__ void hvd_convert_##from##_##to(const PackArguments arguments) {       \
        const auto here = place();                                                              \
        device::convert<device::from, device::to>(arguments, here.warp, here.warps, here.lane); \
    }
HVD_PACK_KERNELS(HVD_KERNEL)

extern "C" __global__ void hvd_copy(const PackArguments arguments) {
    const auto here = place();
    device::copy(arguments, here.warp, here.warps, here.lane);
}

#define HVD_KERNEL_OF_ADASUM(type)                                                          \
    extern "C" __global__ void hvd_adasum_dots_##type(const AdasumArguments arguments) {    \
        const auto here = place();                                                          \
        device::adasum_dots<device::type>(arguments, here.warp, here.warps, here.lane);     \
    }                                                                                       \
    extern "C" __global__ void hvd_adasum_combine_##type(const AdasumArguments arguments) { \
        const auto here = place();                                                          \
        device::adasum_combine<device::type>(arguments, here.warp, here.warps, here.lane);  \
    }
HVD_ADASUM_TYPES(HVD_KERNEL_OF_ADASUM)

extern "C" __global__ void hvd_adasum_totals(const AdasumArguments arguments) {
    const auto here = place();
    device::adasum_totals(arguments, here.warp, here.warps, here.lane);
}
