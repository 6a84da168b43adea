// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hosts/enter.hpp"

#include "collectives/base/unique_fd.hpp"
#include "tests/support/hosts/calls.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <grp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

struct Command {
    pid_t host = 0;
    int namespaces = 0;
    uid_t user = 0;
    const char* folder = nullptr;
    char** words = nullptr;
};

Command read_command(std::span<char*> arguments) {
    const std::string_view where = arguments[1];
    return {.host = std::atoi(arguments[0]),
            .namespaces = where == "net" ? CLONE_NEWNET
                                         : CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC |
                                               CLONE_NEWNET | CLONE_NEWPID,
            .user = static_cast<uid_t>(std::atoi(arguments[2])),
            .folder = arguments[3],
            .words = &arguments[4]};
}

[[noreturn]] void become(const Command& command, const sigset_t& mask) {
    if (command.user != 0) {
        check(::setgroups(0, nullptr), "groups");
        check(::setresgid(command.user, command.user, command.user), "group");
        check(::setresuid(command.user, command.user, command.user), "user");
    }
    die_with_parent();  // after the change of user, which takes it back
    check(::chdir(command.folder), std::string("directory ") + command.folder);
    check(::pthread_sigmask(SIG_SETMASK, &mask, nullptr), "signal mask");
    ::execvp(command.words[0], command.words);
    const int code = errno == ENOENT ? 127 : 126;
    std::perror(command.words[0]);
    std::_Exit(code);
}

/// Ends as the command did.
int end_like(int status) {
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    const rlimit no_core{};
    (void)::setrlimit(RLIMIT_CORE, &no_core);
    const int number = WTERMSIG(status);
    (void)std::signal(number, SIG_DFL);
    sigset_t all;
    ::sigemptyset(&all);
    (void)::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    (void)std::raise(number);
    return 128 + number;
}

int wait_for(pid_t child, const sigset_t& signals) {
    while (true) {
        siginfo_t info{};
        const int number = ::sigwaitinfo(&signals, &info);
        if (number == SIGCHLD) {
            int status = 0;
            if (::waitpid(child, &status, WNOHANG) == child) {
                return end_like(status);
            }
        } else if (number > 0 && info.si_code != SI_KERNEL) {  // else a terminal's: both have it
            (void)::kill(child, number);
        }
    }
}

}  // namespace

int run_inside(std::span<char*> arguments) {
    const Command command = read_command(arguments);
    die_with_parent();
    const UniqueFd host(static_cast<int>(
        check(::syscall(SYS_pidfd_open, command.host, 0), "host " + std::string(arguments[0]))));
    check(::setns(host.get(), command.namespaces), "namespaces of " + std::string(arguments[0]));
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    check(::pthread_sigmask(SIG_SETMASK, &all, &before), "signal mask");
    (void)std::signal(SIGCHLD, SIG_DFL);
    const pid_t child = check(::fork(), "fork");
    if (child == 0) {
        become(command, before);
    }
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        (void)::close(fd);  // their ends are the command's to close
    }
    return wait_for(child, all);
}

}  // namespace hvd::test
