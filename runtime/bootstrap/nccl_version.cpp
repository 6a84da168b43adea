// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/nccl_version.hpp"

#include <system_error>
#include <utility>

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

std::vector<std::filesystem::path> interpreter_nccl_folders() {
    Dl_info own{};
    // Any address of this library does.
    if (::dladdr(reinterpret_cast<const void*>(&nccl_version), &own) == 0) {
        return {};
    }
    // Of a wheel: site-packages/horovod/lib/libhorovod.so, beside site-packages/nvidia/nccl/lib.
    std::vector<std::filesystem::path> folders;
    std::error_code ignored;
    for (auto folder = std::filesystem::path(own.dli_fname).parent_path();
         folder.has_relative_path(); folder = folder.parent_path()) {
        auto candidate = folder / "nvidia" / "nccl" / "lib";
        if (std::filesystem::is_directory(candidate, ignored)) {
            folders.push_back(std::move(candidate));
        }
    }
    return folders;
}

}  // namespace hvd::rt
