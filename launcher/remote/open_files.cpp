// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/open_files.hpp"

#include <algorithm>

namespace hvd::launch {
namespace {

/// The limit before it was raised; RLIM_INFINITY, which is never restored, until then. One variable
/// for the process, as the limit is.
rlim_t& limit_before() noexcept {
    static rlim_t limit = RLIM_INFINITY;
    return limit;
}

constexpr rlim_t kOwnFiles = 64;
constexpr rlim_t kFilesPerProgram = 4;  // three pipes and a handle of the process
constexpr rlim_t kFilesPerStart = 4;    // those, or for the name of a host
constexpr rlim_t kFilesPerSocket = 1;

/// The number of descriptors that stay open once all hosts are linked.
rlim_t kept_files(const FileBudget& budget) {
    return kOwnFiles + kFilesPerProgram * budget.programs +
           kFilesPerSocket * (budget.hosts - budget.programs);
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

std::size_t starts_at_a_time(const FileBudget& budget) {
    const auto kept = kept_files(budget);
    return std::max<rlim_t>((budget.limit - std::min(budget.limit, kept)) / kFilesPerStart, 1);
}

Status check_room(const FileBudget& budget, const std::string& what) {
    const auto needed = kept_files(budget) + kFilesPerStart;
    if (needed <= budget.limit) {
        return ok();
    }
    const auto through = budget.programs == 0
                             ? ""
                             : ", " + std::to_string(budget.programs) + " of them through " + what +
                                   " with " + std::to_string(kFilesPerProgram) + " each";
    return Error{Errc::unavailable,
                 "connections to " + std::to_string(budget.hosts) + " hosts" + through + " need " +
                     std::to_string(needed) + " open files, and the limit is " +
                     std::to_string(budget.limit) +
                     "; raise the hard one (ulimit -Hn, nofile in limits.conf, LimitNOFILE of "
                     "systemd), or use fewer hosts"};
}

}  // namespace hvd::launch
