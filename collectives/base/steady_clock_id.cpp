// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/steady_clock_id.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <sys/stat.h>

namespace hvd {

std::string steady_clock_id() {
    const auto boot = read_file("/proc/sys/kernel/random/boot_id", 64);
    if (!boot) {
        return {};
    }
    std::string id(trim(*boot));
    struct stat space {};
    if (::stat("/proc/self/ns/time", &space) == 0) {
        id += "/" + std::to_string(space.st_ino);
    }
    return id;
}

}  // namespace hvd
