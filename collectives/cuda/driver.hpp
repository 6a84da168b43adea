// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver as one table of functions. Nothing links it, and no CUDA runtime is used. Only
// collectives/cuda, the backends of GPUs and tests include this header: it brings in CUDA's.
#pragma once

#include "collectives/base/result.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <optional>
#include <string>

namespace hvd::coll::cuda {

/// The functions of the driver that are used: X(function, version of CUDA that gave it this
/// signature, x 1000).
// clang-format off
#define HVD_CUDA_FUNCTIONS(X)                                                             \
    X(cuInit, 2000) X(cuGetErrorName, 6000) X(cuGetErrorString, 6000)                     \
    X(cuDeviceGet, 2000) X(cuDeviceGetCount, 2000) X(cuDeviceGetName, 2000)               \
    X(cuDeviceGetUuid, 9020) X(cuDeviceGetAttribute, 2000)                                \
    X(cuDevicePrimaryCtxRetain, 7000) X(cuDevicePrimaryCtxRelease, 11000)                 \
    X(cuDevicePrimaryCtxGetState, 7000)                                                   \
    X(cuCtxGetCurrent, 4000) X(cuCtxPushCurrent, 4000) X(cuCtxPopCurrent, 4000)           \
    X(cuCtxGetStreamPriorityRange, 5050)                                                  \
    X(cuModuleLoadDataEx, 2010) X(cuModuleUnload, 2000) X(cuModuleGetFunction, 2000)      \
    X(cuLaunchKernel, 4000) X(cuLaunchHostFunc, 10000)                                    \
    X(cuMemAlloc, 3020) X(cuMemFree, 3020) X(cuMemGetInfo, 3020)                          \
    X(cuMemHostAlloc, 2020) X(cuMemFreeHost, 2000) X(cuPointerGetAttributes, 7000)        \
    X(cuMemAllocAsync, 11020) X(cuMemFreeAsync, 11020)                                     \
    X(cuMemcpyAsync, 4000) X(cuMemcpyHtoDAsync, 3020) X(cuMemcpyDtoHAsync, 3020)          \
    X(cuMemsetD8Async, 3020)                                                              \
    X(cuStreamCreateWithPriority, 5050) X(cuStreamDestroy, 4000) X(cuStreamQuery, 2000)   \
    X(cuStreamSynchronize, 2000) X(cuStreamWaitEvent, 3020)                               \
    X(cuStreamIsCapturing, 10000) X(cuThreadExchangeStreamCaptureMode, 10010)             \
    X(cuEventCreate, 2000) X(cuEventDestroy, 4000) X(cuEventQuery, 2000)                  \
    X(cuEventRecord, 2000) X(cuEventSynchronize, 2000)
// clang-format on

/// The functions, under their own names. A value: the library is never closed. Streams are the
/// legacy ones where a function takes the default stream.
struct Driver {
#define HVD_CUDA_MEMBER(name, since) PFN_##name##_v##since name = nullptr;
    HVD_CUDA_FUNCTIONS(HVD_CUDA_MEMBER)
#undef HVD_CUDA_MEMBER

    int version = 0;   // of CUDA, as the driver says it: 13000 is 13.0
    std::string path;  // of the library
};

inline constexpr const char* kDriverLibrary = "libcuda.so.1";

/// Opens the driver and looks up every function, in the version that the table asks for. Calls
/// nothing that finds devices or makes a context. Errors: unsupported, where there is no driver or
/// it is too old, with its path and version.
[[nodiscard]] Result<Driver> open_driver(const std::string& name = kDriverLibrary);

/// The driver in `driver`, opened unless it is there. Throws Exception.
const Driver& open_once(std::optional<Driver>& driver, const std::string& name);

/// "12.8" for 12080.
[[nodiscard]] std::string cuda_version_text(int version);

/// Throws Exception where `result` is not CUDA_SUCCESS: "`what`: the driver's name and words".
void check(const Driver& driver, CUresult result, const char* what);

}  // namespace hvd::coll::cuda
