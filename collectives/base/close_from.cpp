// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/close_from.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvd {

void close_from(int first) noexcept {
    constexpr int kMostFiles = 1 << 20;  // what limits allow on usual machines
    if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) {
        return;
    }
    rlimit limit{};  // Linux before 5.9
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = first; static_cast<rlim_t>(fd) < limit.rlim_cur && fd < kMostFiles; ++fd) {
        (void)::close(fd);
    }
}

}  // namespace hvd
