// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/user_terminal.hpp"

#include "collectives/base/close_from.hpp"
#include "collectives/base/error.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// Holds back all signals, or one, as long as it lives.
class SignalBlock {
public:
    explicit SignalBlock(const sigset_t& set) { ::pthread_sigmask(SIG_BLOCK, &set, &before_); }
    ~SignalBlock() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalBlock(const SignalBlock&) = delete;
    SignalBlock& operator=(const SignalBlock&) = delete;

private:
    sigset_t before_{};
};

sigset_t all_signals() {
    sigset_t all{};
    ::sigfillset(&all);
    return all;
}

/// The signal of who changes a terminal from the background.
sigset_t background_signal() {
    sigset_t set{};
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTTOU);
    return set;
}

/// Only where the modes are ours, by which nothing is added to what is written: a shell to which
/// the terminal has gone back has made its own. Async-signal-safe. SIGTTOU must be blocked.
void change_back(const termios& modes) {
    termios now{};
    if (::tcgetattr(STDIN_FILENO, &now) == 0 && (now.c_oflag & OPOST) == 0) {
        (void)::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
    }
}

/// The child's whole life, with all signals blocked: until horovodrun has ended. It leaves
/// horovodrun's process group and name, so that who kills these spares it, and holds nothing but
/// the terminal and the pipe. Async-signal-safe: horovodrun may have threads.
[[noreturn]] void watch(int pipe, const termios& modes) {
    (void)::setpgid(0, 0);
    (void)::prctl(PR_SET_NAME, "hvd-terminal");
    (void)::dup2(pipe, STDOUT_FILENO);
    close_from(STDERR_FILENO);
    char byte = 0;
    while (::read(STDOUT_FILENO, &byte, 1) < 0 && errno == EINTR) {
    }
    change_back(modes);
    ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<UserTerminal>> UserTerminal::open() {
    termios modes{};
    if (::tcgetattr(STDIN_FILENO, &modes) != 0) {
        return system_error("the terminal's modes", errno);
    }
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_error("pipe", errno);
    }
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const SignalBlock block(all_signals());
    const pid_t watcher = ::fork();
    if (watcher < 0) {
        return system_error("fork", errno);
    }
    if (watcher == 0) {
        watch(read_end.get(), modes);
    }
    return std::unique_ptr<UserTerminal>(new UserTerminal(modes, std::move(write_end), watcher));
}

UserTerminal::~UserTerminal() {
    restore();
    (void)::kill(watcher_, SIGKILL);  // it has nothing more to do; not reaped yet
    while (::waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

bool UserTerminal::make_raw() {
    if (!is_in_foreground()) {
        return false;
    }
    auto raw = modes_;
    ::cfmakeraw(&raw);
    return ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

void UserTerminal::restore_keys() {
    auto modes = modes_;
    modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    const SignalBlock block(background_signal());
    change_back(modes);
}

void UserTerminal::restore() {
    const SignalBlock block(background_signal());
    change_back(modes_);
}

UserTerminal::Size UserTerminal::size() {
    winsize window{};
    (void)::ioctl(STDIN_FILENO, TIOCGWINSZ, &window);
    return {.rows = window.ws_row, .columns = window.ws_col};
}

bool UserTerminal::is_in_foreground() {
    const pid_t group = ::tcgetpgrp(STDIN_FILENO);
    return group < 0 || group == ::getpgrp();  // below 0: it controls no jobs
}

}  // namespace hvd::launch
