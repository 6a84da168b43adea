// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/loader_cache.hpp"

#include "collectives/base/file.hpp"

#include <cstddef>

namespace hvd {

std::string find_in_loader_cache(std::string_view library) {
    constexpr std::size_t kMaxCacheBytes = std::size_t{64} << 20;
    const auto cache = read_file("/etc/ld.so.cache", kMaxCacheBytes);
    if (!cache) {
        return "";
    }
    // Its strings end with a NUL each.
    const auto name = cache->find("/" + std::string(library) + std::string(1, '\0'));
    if (name == std::string::npos) {
        return "";
    }
    const auto start = cache->rfind('\0', name) + 1;
    return cache->substr(start, cache->find('\0', start) - start);
}

}  // namespace hvd
