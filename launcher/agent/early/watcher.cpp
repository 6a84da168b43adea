// SPDX-License-Identifier: Apache-2.0
//
// launcher/agent/die_with_parent without the C library. The watcher shares our memory, and keeps it
// when we execute the command: nothing is copied.
#include "launcher/agent/early/watcher.hpp"

#include "launcher/agent/early/raw_calls.hpp"
#include "launcher/agent/early/words.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace hvd::launch::early {
namespace {

using namespace std::string_view_literals;  // those are no call of strlen

constexpr std::size_t kStackBytes = 8192;

/// What limits of open files allow on usual machines.
constexpr std::uint64_t kMostFiles = 1U << 20;
constexpr unsigned long kLinksOfOneThread =
    3;  // of /proc/PID/task: `.`, `..` and a folder for each

/// Both in memory that outlives us.
struct Watch {
    int parent = -1;  // pidfds
    int self = -1;
    char* top = nullptr;  // of the watcher's stack
    long error = 0;
};

bool is_child_of_main_thread(long parent) {
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

/// Until one of the two has ended.
[[noreturn]] void watch(void* argument) {
    const auto& both = *static_cast<const Watch*>(argument);
    (void)call(SYS_setsid);
    (void)call(SYS_dup2, both.parent, 0);
    (void)call(SYS_dup2, both.self, 1);
    if (call(SYS_close_range, 2U, ~0U, 0U) < 0) {  // Linux before 5.9
        rlimit64 limit{};
        (void)call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit);
        for (std::uint64_t fd = 2; fd < limit.rlim_cur && fd < kMostFiles; ++fd) {
            (void)call(SYS_close, fd);
        }
    }
    pollfd ends[2] = {{.fd = 0, .events = POLLIN, .revents = 0},
                      {.fd = 1, .events = POLLIN, .revents = 0}};
    while (call(SYS_poll, ends, 2, -1) == -EINTR) {
    }
    if (ends[1].revents == 0) {
        (void)call(SYS_pidfd_send_signal, 1, SIGKILL, 0, 0);
    }
    leave(0);
}

/// Goes at once, so that the rank finds no child that it does not know.
[[noreturn]] void start_watch(void* argument) {
    auto& both = *static_cast<Watch*>(argument);
    both.error = start_sharing_memory(CLONE_VM, both.top, &watch, argument);
    leave(0);
}

long start_watcher(long parent) {
    const long memory =
        call(SYS_mmap, 0, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (memory < 0) {
        return memory;
    }
    auto* const stacks = reinterpret_cast<char*>(memory);
    auto& both = *reinterpret_cast<Watch*>(stacks);  // zero; both stacks end far above
    both.parent = static_cast<int>(call(SYS_pidfd_open, parent, 0));
    both.self = static_cast<int>(call(SYS_pidfd_open, call(SYS_getpid), 0));
    both.top = stacks + kStackBytes;
    if (both.parent < 0 || both.self < 0) {
        const int error = both.parent < 0 ? both.parent : both.self;
        return error == -ENOSYS ? 0 : error;  // an old kernel: mpirun's own care must do
    }
    if (call(SYS_getppid) != parent) {
        return -ECHILD;
    }
    const long between =
        start_sharing_memory(CLONE_VM | CLONE_VFORK, stacks + 2 * kStackBytes, &start_watch, &both);
    if (between < 0) {
        return between;
    }
    while (call(SYS_wait4, between, 0, __WALL, 0) == -EINTR) {
    }
    return both.error < 0 ? both.error : 0;
}

}  // namespace

long die_with_parent() {
    const long parent = call(SYS_getppid);
    if (!is_child_of_main_thread(parent)) {
        return start_watcher(parent);
    }
    if (const long error = call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); error != 0) {
        return error;
    }
    return call(SYS_getppid) == parent ? 0 : -ECHILD;
}

}  // namespace hvd::launch::early
