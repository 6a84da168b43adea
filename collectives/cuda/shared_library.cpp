// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/shared_library.hpp"

#include <string_view>

#include <dlfcn.h>
#include <link.h>

namespace hvd::coll::cuda {
namespace {

std::string loader_error() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps one text for each thread
    const char* text = ::dlerror();
    return text == nullptr ? "unknown error" : text;
}

std::string path_of(void* handle, const std::string& name) {
    link_map* map = nullptr;
    const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 &&
                       map != nullptr && map->l_name != nullptr && *map->l_name != '\0';
    return known ? map->l_name : name;
}

struct Search {
    const std::string& prefix;
    std::vector<std::string> paths;
};

int look_at(dl_phdr_info* info, std::size_t /*size*/, void* data) {
    auto& search = *static_cast<Search*>(data);
    const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    const auto name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
    if (name.starts_with(search.prefix)) {
        search.paths.emplace_back(path);
    }
    return 0;
}

}  // namespace

Result<SharedLibrary> open_library(const std::string& name) {
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return Error{Errc::unsupported, loader_error()};
    }
    return SharedLibrary{.handle = handle, .path = path_of(handle, name)};
}

std::vector<SharedLibrary> loaded_libraries(const std::string& prefix) {
    Search search{.prefix = prefix, .paths = {}};
    (void)::dl_iterate_phdr(look_at, &search);
    std::vector<SharedLibrary> libraries;
    // Opened afterwards: the dynamic linker holds a lock while it iterates.
    for (const auto& path : search.paths) {
        if (void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
            libraries.push_back({.handle = handle, .path = path});
        }
    }
    return libraries;
}

void* find_symbol(const SharedLibrary& library, const char* name) noexcept {
    return ::dlsym(library.handle, name);
}

}  // namespace hvd::coll::cuda
