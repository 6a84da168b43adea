// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/nccl_version.hpp"

#include <dlfcn.h>

namespace hvd::rt {

std::int32_t nccl_version() {
    // Never closed: a library with threads and a CUDA runtime is not unloaded.
    void* const library = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        return 0;
    }
    auto* const ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
    int version = 0;
    return ask != nullptr && ask(&version) == 0 ? version : 0;
}

}  // namespace hvd::rt
