// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/die_with_parent.hpp"

#include "collectives/base/close_from.hpp"
#include "collectives/base/file.hpp"
#include "collectives/base/pidfd.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxChildren = std::size_t{16} << 20;

/// Whether the process that has this number now has forked this one.
bool is_parent(pid_t parent) {
    return ::getppid() == parent;
}

/// Until one of the two has ended. Holds no descriptor but these, and its parent is init or the
/// next subreaper, so that the rank finds no child that it does not know.
[[noreturn]] void watch(int parent, int self, pid_t pid) {
    (void)::setsid();
    (void)::dup2(parent, 0);
    (void)::dup2(self, 1);
    close_from(2);
    std::array<pollfd, 2> ends{
        {{.fd = 0, .events = POLLIN, .revents = 0}, {.fd = 1, .events = POLLIN, .revents = 0}}};
    while (::poll(ends.data(), ends.size(), -1) < 0 && errno == EINTR) {
    }
    if (ends[1].revents == 0) {
        (void)send_signal_by(1, pid, SIGKILL);
    }
    ::_exit(0);
}

int start_watcher(pid_t parent) {
    const auto parent_end = open_pidfd(parent);
    const auto self_end = open_pidfd(::getpid());
    if (!parent_end || !self_end) {
        return errno == ENOSYS ? 0 : errno;  // an old kernel: mpirun's own care must do
    }
    if (!is_parent(parent)) {
        return ECHILD;
    }
    const pid_t self = ::getpid();
    const pid_t between = ::fork();
    if (between == 0) {
        if (::fork() == 0) {
            watch(parent_end.get(), self_end.get(), self);
        }
        ::_exit(0);
    }
    if (between < 0) {
        return errno;
    }
    while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
    }
    return 0;
}

}  // namespace

bool lists_child(std::string_view children, pid_t pid) {
    const auto number = std::to_string(pid);
    return std::ranges::any_of(split(trim(children), ' '),
                               [&](std::string_view child) { return child == number; });
}

bool is_signalled_in_time(pid_t parent) {
    const auto number = std::to_string(parent);
    const auto children =
        read_file("/proc/" + number + "/task/" + number + "/children", kMaxChildren);
    return children && lists_child(*children, ::getpid());
}

int arm_death_signal(pid_t parent) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return errno;
    }
    return is_parent(parent) ? 0 : ECHILD;
}

int die_with_parent() {
    const pid_t parent = ::getppid();
    return is_signalled_in_time(parent) ? arm_death_signal(parent) : start_watcher(parent);
}

}  // namespace hvd::launch::agent
