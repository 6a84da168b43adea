// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/private_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch::agent {

bool is_private_folder(const char* path) noexcept {
    constexpr mode_t kAllBits = 07777;
    struct stat facts {};
    return ::lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() &&
           (facts.st_mode & kAllBits) == S_IRWXU;
}

}  // namespace hvd::launch::agent
