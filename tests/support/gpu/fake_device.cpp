// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's devices, contexts, modules and kernels, and how its functions are found.
#include "collectives/cuda/driver.hpp"
#include "tests/support/gpu/driver_state.hpp"
#include "tests/support/gpu/pack_twin.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include <elf.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace hvd::test::gpu {
namespace {

using coll::cuda::AdasumArguments;
using coll::cuda::PackArguments;
using coll::cuda::PackEntry;

constexpr int kVersion = 13000;

CUresult fake_cuInit(unsigned flags) {
    HVD_FAKE_BEGIN("cuInit", Needs::nothing)
    state().is_initialised = true;
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGetErrorName(CUresult error, const char** name) {
    *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_A_TEST";
    return CUDA_SUCCESS;
}

CUresult fake_cuGetErrorString(CUresult error, const char** words) {
    *words = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an error of a test";
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetCount(int* count) {
    HVD_FAKE_BEGIN("cuDeviceGetCount", Needs::init)
    *count = kDevices;
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGet(CUdevice* device, int index) {
    HVD_FAKE_BEGIN("cuDeviceGet", Needs::init)
    *device = index;
    return index >= 0 && index < kDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult fake_cuDeviceGetName(char* name, int length, CUdevice /*device*/) {
    HVD_FAKE_BEGIN("cuDeviceGetName", Needs::init)
    std::strncpy(name, "stand-in", static_cast<std::size_t>(length));
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    HVD_FAKE_BEGIN("cuDeviceGetUuid", Needs::init)
    std::memset(uuid, device, sizeof(*uuid));
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice /*device*/) {
    HVD_FAKE_BEGIN("cuDeviceGetAttribute", Needs::init)
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT       ? 2
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
                                                                         : 0;
    return CUDA_SUCCESS;
}

CUresult fake_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    HVD_FAKE_BEGIN("cuDevicePrimaryCtxRetain", Needs::init, true)
    *context = &state().contexts.at(static_cast<std::size_t>(device));
    ++(*context)->retained;
    return CUDA_SUCCESS;
}

CUresult fake_cuDevicePrimaryCtxRelease(CUdevice device) {
    HVD_FAKE_BEGIN("cuDevicePrimaryCtxRelease", Needs::init, true)
    auto& context = state().contexts.at(static_cast<std::size_t>(device));
    if (context.retained == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    --context.retained;
    return CUDA_SUCCESS;
}

CUresult fake_cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    HVD_FAKE_BEGIN("cuDevicePrimaryCtxGetState", Needs::init)
    *flags = 0;
    *active = state().contexts.at(static_cast<std::size_t>(device)).retained != 0 ? 1 : 0;
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxGetCurrent(CUcontext* context) {
    HVD_FAKE_BEGIN("cuCtxGetCurrent", Needs::init)
    *context = context_stack().empty() ? nullptr : context_stack().back();
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxPushCurrent(CUcontext context) {
    HVD_FAKE_BEGIN("cuCtxPushCurrent", Needs::init)
    if (context == nullptr || context->retained == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    context_stack().push_back(context);
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxPopCurrent(CUcontext* context) {
    HVD_FAKE_BEGIN("cuCtxPopCurrent", Needs::context)
    if (context != nullptr) {
        *context = context_stack().back();
    }
    context_stack().pop_back();
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    HVD_FAKE_BEGIN("cuCtxGetStreamPriorityRange", Needs::context)
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

bool is_elf(const void* image) {
    return std::memcmp(image, ELFMAG, SELFMAG) == 0;
}

/// PTX is text. A cubin is an ELF file, which ends with its headers.
std::string read_image(const void* image) {
    const auto* const bytes = static_cast<const char*>(image);
    if (!is_elf(image)) {
        return bytes;
    }
    Elf64_Ehdr header{};
    std::memcpy(&header, image, sizeof header);
    const auto sections = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
    const auto programs = header.e_phoff + std::size_t{header.e_phnum} * header.e_phentsize;
    return {bytes, std::max(sections, programs)};
}

CUresult fake_cuModuleLoadDataEx(CUmodule* module,
                                 const void* image,
                                 unsigned /*count*/,
                                 CUjit_option*,
                                 void**) {
    HVD_FAKE_BEGIN("cuModuleLoadDataEx", Needs::context, true)
    auto loaded = std::make_unique<CUmod_st>(CUmod_st{read_image(image)});
    if (!is_elf(image) && loaded->image.find(".version ") == std::string::npos) {
        return CUDA_ERROR_INVALID_PTX;
    }
    ++state().modules;
    *module = loaded.release();
    return CUDA_SUCCESS;
}

CUresult fake_cuModuleUnload(CUmodule module) {
    HVD_FAKE_BEGIN("cuModuleUnload", Needs::context, true)
    delete module;
    --state().modules;
    return CUDA_SUCCESS;
}

CUresult fake_cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    HVD_FAKE_BEGIN("cuModuleGetFunction", Needs::context, true)
    const auto* const kernel = find_kernel(name);
    if (kernel == nullptr || !module->has_kernel(name)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): a handle, which nobody writes to
    *function = reinterpret_cast<CUfunction>(const_cast<Kernel*>(kernel));
    return CUDA_SUCCESS;
}

/// Says what a kernel that packs or unpacks is about to access.
void touch_all(const PackArguments& arguments, const Kernel& kernel, const Touch& touch) {
    touch({arguments.entries, arguments.entry_count * sizeof(PackEntry), false});
    const bool is_pack = arguments.is_pack != 0;
    const auto fused_bytes = is_pack ? kernel.written_bytes : kernel.read_bytes;
    const auto tensor_bytes = is_pack ? kernel.read_bytes : kernel.written_bytes;
    for (std::uint64_t i = 0; i < arguments.entry_count; ++i) {
        const auto& entry = arguments.entries[i];
        touch({entry.tensor, entry.count * tensor_bytes, !is_pack});
        touch({arguments.fused + entry.offset * fused_bytes, entry.count * fused_bytes, is_pack});
    }
}

/// The same of a kernel of Adasum: one that reads gradients, combines them, or adds up sums.
void touch_all(const AdasumArguments& arguments, const Kernel& kernel, const Touch& touch) {
    const auto bytes_of = [](std::uint64_t count) {
        return count * coll::cuda::kAdasumSums * sizeof(double);
    };
    const bool is_combining = kernel.written_bytes != 0;
    const bool has_gradients = kernel.read_bytes != 0;
    touch({arguments.entries, arguments.entry_count * sizeof(coll::cuda::AdasumEntry), false});
    if (!is_combining) {
        touch({arguments.partials, bytes_of(arguments.chunk_count), has_gradients});
    }
    if (is_combining || !has_gradients) {
        touch({arguments.totals, bytes_of(arguments.entry_count), !is_combining});
    }
    for (std::uint64_t i = 0; i < (has_gradients ? arguments.entry_count : 0); ++i) {
        const auto& entry = arguments.entries[i];
        const auto begin = entry.offset * kernel.read_bytes;
        touch({arguments.left + begin, entry.count * kernel.read_bytes, false});
        touch({arguments.right + begin, entry.count * kernel.read_bytes, false});
        touch({arguments.result + begin, entry.count * kernel.written_bytes, true});
    }
}

/// Puts a kernel into a stream, which has its own copy of the arguments.
template <class Arguments>
void enqueue_kernel(std::uint64_t stream,
                    const Kernel& kernel,
                    void (*run)(const Arguments&, unsigned, unsigned),
                    const void* given,
                    std::array<unsigned, 2> size) {
    Arguments arguments;
    std::memcpy(&arguments, given, sizeof(arguments));
    state().scheduler().enqueue(
        stream,
        [=, &kernel](const Touch& touch) {
            touch_all(arguments, kernel, touch);
            run(arguments, size[0], size[1]);
            return true;
        },
        false);
}

CUresult fake_cuLaunchKernel(CUfunction function,
                             unsigned blocks,
                             unsigned blocks_y,
                             unsigned blocks_z,
                             unsigned threads,
                             unsigned threads_y,
                             unsigned threads_z,
                             unsigned /*shared_bytes*/,
                             CUstream stream,
                             void** parameters,
                             void** extra) {
    HVD_FAKE_BEGIN("cuLaunchKernel", Needs::context)
    const auto id = state().stream(stream);
    if (id == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (function == nullptr || extra != nullptr || blocks == 0 || threads == 0 || threads > 1024 ||
        blocks_y * blocks_z * threads_y * threads_z != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const auto& kernel = *reinterpret_cast<const Kernel*>(function);
    if (kernel.run != nullptr) {
        enqueue_kernel(id, kernel, kernel.run, parameters[0], {blocks, threads});
    } else {
        enqueue_kernel(id, kernel, kernel.run_adasum, parameters[0], {blocks, threads});
    }
    return CUDA_SUCCESS;
}

}  // namespace

std::vector<DriverFunction> device_functions() {
    return {
        HVD_FAKE_ROW(cuInit, 2000),
        HVD_FAKE_ROW(cuGetErrorName, 6000),
        HVD_FAKE_ROW(cuGetErrorString, 6000),
        HVD_FAKE_ROW(cuDeviceGet, 2000),
        HVD_FAKE_ROW(cuDeviceGetCount, 2000),
        HVD_FAKE_ROW(cuDeviceGetName, 2000),
        HVD_FAKE_ROW(cuDeviceGetUuid, 9020),
        HVD_FAKE_ROW(cuDeviceGetAttribute, 2000),
        HVD_FAKE_ROW(cuDevicePrimaryCtxRetain, 7000),
        HVD_FAKE_ROW(cuDevicePrimaryCtxRelease, 11000),
        HVD_FAKE_ROW(cuDevicePrimaryCtxGetState, 7000),
        HVD_FAKE_ROW(cuCtxGetCurrent, 4000),
        HVD_FAKE_ROW(cuCtxPushCurrent, 4000),
        HVD_FAKE_ROW(cuCtxPopCurrent, 4000),
        HVD_FAKE_ROW(cuCtxGetStreamPriorityRange, 5050),
        HVD_FAKE_ROW(cuModuleLoadDataEx, 2010),
        HVD_FAKE_ROW(cuModuleUnload, 2000),
        HVD_FAKE_ROW(cuModuleGetFunction, 2000),
        HVD_FAKE_ROW(cuLaunchKernel, 4000),
    };
}

}  // namespace hvd::test::gpu

EXPORTED CUresult CUDAAPI cuDriverGetVersion(int* version) {
    *version = hvd::test::gpu::kVersion;
    return CUDA_SUCCESS;
}

// Under its newer name, as the driver has it beside the old one.
// NOLINTBEGIN(readability-identifier-naming): names of cuda.h
EXPORTED CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol,
                                              void** pfn,
                                              int cudaVersion,
                                              cuuint64_t /*flags*/,
                                              CUdriverProcAddressQueryResult* /*symbolStatus*/) {
    using hvd::test::gpu::device_functions;
    using hvd::test::gpu::memory_functions;
    using hvd::test::gpu::stream_functions;
    for (const auto& functions : {device_functions(), memory_functions(), stream_functions()}) {
        for (const auto& function : functions) {
            if (std::strcmp(function.name, symbol) == 0 && function.since <= cudaVersion) {
                *pfn = function.address;
                return CUDA_SUCCESS;
            }
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

// NOLINTEND(readability-identifier-naming)

EXPORTED hvd::test::gpu::Control* hvd_fake_cuda() {
    return &hvd::test::gpu::state();
}
