// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's memory: allocations, copies, what an address is.
#include "collectives/cuda/driver.hpp"
#include "tests/support/gpu/driver_state.hpp"

#include <cstring>

namespace hvd::test::gpu {
namespace {

void* pointer(CUdeviceptr address) {
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): so CUDA has it
}

CUresult allocate(void** address, std::size_t bytes, Memory::Kind kind) {
    if (bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = state().scheduler().with_memory([&](Memory& memory) {
        return memory.allocate(bytes, kind, context_stack().back()->device);
    });
    return CUDA_SUCCESS;
}

/// As the driver does it, after everything that was enqueued.
CUresult give_back(void* address, Memory::Kind kind) {
    if (address == nullptr) {
        return CUDA_SUCCESS;
    }
    state().scheduler().drain();
    const bool known =
        state().scheduler().with_memory([&](Memory& memory) { return memory.free(address, kind); });
    if (!known) {
        state().report("freed what is no allocation, or a second time");
    }
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy(void* to, const void* from, std::size_t bytes, CUstream stream) {
    const auto id = state().stream(stream);
    if (id == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().enqueue(
        id,
        [=](const Touch& touch) {
            touch({from, bytes, false});
            touch({to, bytes, true});
            std::memmove(to, from, bytes);
            return true;
        },
        true);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
    HVD_FAKE_BEGIN("cuMemAlloc", Needs::context, true)
    void* allocated = nullptr;
    const auto result = allocate(&allocated, bytes, Memory::Kind::device);
    *address = reinterpret_cast<CUdeviceptr>(allocated);
    return result;
}

CUresult fake_cuMemFree(CUdeviceptr address) {
    HVD_FAKE_BEGIN("cuMemFree", Needs::context, true)
    return give_back(pointer(address), Memory::Kind::device);
}

/// In the order of a stream: waits for nothing.
CUresult fake_cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
    HVD_FAKE_BEGIN("cuMemAllocAsync", Needs::context)
    if (state().stream(stream) == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    void* allocated = nullptr;
    const auto result = allocate(&allocated, bytes, Memory::Kind::device);
    *address = reinterpret_cast<CUdeviceptr>(allocated);
    return result;
}

CUresult fake_cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    HVD_FAKE_BEGIN("cuMemFreeAsync", Needs::context)
    const auto id = state().stream(stream);
    if (id == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().enqueue(
        id,
        [=](const Touch& touch) {
            touch({pointer(address), 1, true});
            if (!state().scheduler().with_memory([&](Memory& memory) {
                    return memory.free(pointer(address), Memory::Kind::device);
                })) {
                state().report("freed what is no allocation, or a second time");
            }
            return true;
        },
        false);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemGetInfo(std::size_t* free, std::size_t* total) {
    HVD_FAKE_BEGIN("cuMemGetInfo", Needs::context)
    *free = std::size_t{1} << 30U;
    *total = std::size_t{1} << 30U;
    return CUDA_SUCCESS;
}

CUresult fake_cuMemHostAlloc(void** address, std::size_t bytes, unsigned /*flags*/) {
    HVD_FAKE_BEGIN("cuMemHostAlloc", Needs::context, true)
    return allocate(address, bytes, Memory::Kind::pinned);
}

CUresult fake_cuMemFreeHost(void* address) {
    HVD_FAKE_BEGIN("cuMemFreeHost", Needs::context, true)
    return give_back(address, Memory::Kind::pinned);
}

CUresult fake_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    HVD_FAKE_BEGIN("cuMemcpyAsync", Needs::context)
    return copy(pointer(to), pointer(from), bytes, stream);
}

CUresult fake_cuMemcpyHtoDAsync(CUdeviceptr to,
                                const void* from,
                                std::size_t bytes,
                                CUstream stream) {
    HVD_FAKE_BEGIN("cuMemcpyHtoDAsync", Needs::context)
    return copy(pointer(to), from, bytes, stream);
}

CUresult fake_cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    HVD_FAKE_BEGIN("cuMemcpyDtoHAsync", Needs::context)
    return copy(to, pointer(from), bytes, stream);
}

CUresult fake_cuMemsetD8Async(CUdeviceptr to,
                              unsigned char value,
                              std::size_t bytes,
                              CUstream stream) {
    HVD_FAKE_BEGIN("cuMemsetD8Async", Needs::context)
    const auto id = state().stream(stream);
    if (id == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().enqueue(
        id,
        [=](const Touch& touch) {
            touch({pointer(to), bytes, true});
            std::memset(pointer(to), value, bytes);
            return true;
        },
        false);
    return CUDA_SUCCESS;
}

// NOLINTBEGIN(readability-non-const-parameter): the type is CUDA's
CUresult fake_cuPointerGetAttributes(unsigned count,
                                     CUpointer_attribute* attributes,
                                     void** values,
                                     CUdeviceptr address) {
    // NOLINTEND(readability-non-const-parameter)
    HVD_FAKE_BEGIN("cuPointerGetAttributes", Needs::init)
    return state().scheduler().with_memory([&](const Memory& memory) {
        const auto* const block = memory.find(pointer(address));
        const bool known = block != nullptr && !block->is_freed;
        for (unsigned i = 0; i < count; ++i) {
            if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
                *static_cast<unsigned*>(values[i]) = !known ? 0
                                                     : block->kind == Memory::Kind::device
                                                         ? CU_MEMORYTYPE_DEVICE
                                                         : CU_MEMORYTYPE_HOST;
            } else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
                *static_cast<int*>(values[i]) = known ? block->device : -2;
            } else {
                return CUDA_ERROR_INVALID_VALUE;
            }
        }
        return CUDA_SUCCESS;
    });
}

}  // namespace

std::vector<DriverFunction> memory_functions() {
    return {
        HVD_FAKE_ROW(cuMemAllocAsync, 11020),  HVD_FAKE_ROW(cuMemFreeAsync, 11020),
        HVD_FAKE_ROW(cuMemAlloc, 3020),        HVD_FAKE_ROW(cuMemFree, 3020),
        HVD_FAKE_ROW(cuMemGetInfo, 3020),      HVD_FAKE_ROW(cuMemHostAlloc, 2020),
        HVD_FAKE_ROW(cuMemFreeHost, 2000),     HVD_FAKE_ROW(cuMemcpyAsync, 4000),
        HVD_FAKE_ROW(cuMemcpyHtoDAsync, 3020), HVD_FAKE_ROW(cuMemcpyDtoHAsync, 3020),
        HVD_FAKE_ROW(cuMemsetD8Async, 3020),   HVD_FAKE_ROW(cuPointerGetAttributes, 7000),
    };
}

}  // namespace hvd::test::gpu
