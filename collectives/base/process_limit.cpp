// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/process_limit.hpp"

#include <cerrno>
#include <string>

#include <sys/resource.h>

namespace hvd {

Error process_error(std::string_view what, int error_number) {
    auto error = system_error(what, error_number);
    rlimit limit{};
    if (error_number != EAGAIN || ::getrlimit(RLIMIT_NPROC, &limit) != 0) {
        return error;
    }
    error.message += limit.rlim_cur == RLIM_INFINITY
                         ? "; the container or the machine allows no more processes (pids.max)"
                         : "; the user may have " + std::to_string(limit.rlim_cur) +
                               " processes and threads; raise `ulimit -u` (nproc in "
                               "/etc/security/limits.conf)";
    return error;
}

}  // namespace hvd
