// SPDX-License-Identifier: Apache-2.0
//
// launcher/agent/die_with_parent without the C library.
#include "launcher/agent/early/death_signal.hpp"

#include "launcher/agent/early/raw_calls.hpp"
#include "launcher/agent/early/words.hpp"

#include <cerrno>
#include <csignal>
#include <cstddef>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

namespace hvd::launch::early {
namespace {

using namespace std::string_view_literals;  // those are no call of strlen

constexpr unsigned long kLinksOfOneThread =
    3;  // of /proc/PID/task: `.`, `..` and a folder for each

}  // namespace

bool is_signalled_in_time(long parent) {
    Line<64> path;
    path.add("/proc/"sv).add_decimal(static_cast<std::size_t>(parent)).add("/task/"sv);
    struct stat tasks {};
    if (call(SYS_stat, path.text(), &tasks) == 0 && tasks.st_nlink == kLinksOfOneThread) {
        return true;  // of whatever thread we were
    }
    path.add_decimal(static_cast<std::size_t>(parent)).add("/children"sv);
    const long file = call(SYS_open, path.text(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;  // unknown counts as no: a signal that comes too early ends a healthy rank
    }
    NumberSearch search(static_cast<int>(call(SYS_getpid)));
    char text[1024];
    for (long got = 0; (got = call(SYS_read, file, text, sizeof text)) > 0;) {
        search.feed(text, static_cast<std::size_t>(got));
    }
    (void)call(SYS_close, file);
    return search.finish();
}

long arm_death_signal(long parent) {
    if (const long error = call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); error != 0) {
        return error;
    }
    return call(SYS_getppid) == parent ? 0 : -ECHILD;
}

}  // namespace hvd::launch::early
