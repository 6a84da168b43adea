// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/open_files.hpp"

namespace hvd::launch {
namespace {

/// What it was; RLIM_INFINITY, which is never restored, while it has not been raised. One variable
/// for the process, as the limit is.
rlim_t& limit_before() noexcept {
    static rlim_t limit = RLIM_INFINITY;
    return limit;
}

}  // namespace

rlim_t raise_open_files() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return 0;
    }
    if (files.rlim_cur == files.rlim_max) {
        return files.rlim_cur;
    }
    const rlimit raised{.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) {
        return files.rlim_cur;
    }
    limit_before() = files.rlim_cur;
    return raised.rlim_cur;
}

void restore_open_files() noexcept {
    rlimit files{};
    if (limit_before() == RLIM_INFINITY || ::getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return;
    }
    files.rlim_cur = limit_before();
    (void)::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace hvd::launch
