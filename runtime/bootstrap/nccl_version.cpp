// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/nccl_version.hpp"

#include "collectives/base/env.hpp"

#include <dlfcn.h>

namespace hvd::rt {

std::int32_t nccl_version() {
    // Never closed: a library with threads and a CUDA runtime is not unloaded.
    const auto named = read_env("HOROVOD_NCCL_LIBRARY").value_or("");
    void* const library =
        ::dlopen(named.empty() ? "libnccl.so.2" : named.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        return 0;
    }
    auto* const ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
    int version = 0;
    return ask != nullptr && ask(&version) == 0 ? version : 0;
}

}  // namespace hvd::rt
