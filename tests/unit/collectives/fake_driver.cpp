// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 of version FAKE_VERSION that has every function but FAKE_MISSING. None of them may
// be called.
#include <cuda.h>

#include <string_view>

#ifndef FAKE_MISSING
#define FAKE_MISSING ""
#endif
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

CUresult nothing() {
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

EXPORTED CUresult CUDAAPI cuDriverGetVersion(int* version) {
    *version = FAKE_VERSION;
    return CUDA_SUCCESS;
}

#undef cuGetProcAddress
EXPORTED CUresult CUDAAPI fake_get(const char* name,
                                   void** found,
                                   int version,
                                   cuuint64_t flags) asm("cuGetProcAddress");

CUresult CUDAAPI fake_get(const char* name, void** found, int version, cuuint64_t flags) {
    if (name == std::string_view(FAKE_MISSING) || version > FAKE_VERSION ||
        flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *found = reinterpret_cast<void*>(&nothing);
    return CUDA_SUCCESS;
}
