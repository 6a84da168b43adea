// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/signals.hpp"

#include "collectives/base/error.hpp"
#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::array kStopRequests{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kOthers{SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

sigset_t handled_signals() {
    sigset_t set{};
    sigemptyset(&set);
    for (const int number : kStopRequests) {
        sigaddset(&set, number);
    }
    for (const int number : kOthers) {
        sigaddset(&set, number);
    }
    return set;
}

bool is_ignored(int number) {
    struct sigaction now {};
    return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

UniqueFd open_signalfd(const BlockedSignals& blocked) {
    // A signal that our parent had blocked, or ignored, would not have reached a plain program
    // either; while it is blocked, the kernel queues it all the same.
    auto set = handled_signals();
    for (const int number : kStopRequests) {
        if (sigismember(&blocked.original_mask(), number) == 1 || is_ignored(number)) {
            sigdelset(&set, number);
        }
    }
    for (const int number : kOthers) {
        if (is_ignored(number)) {
            sigdelset(&set, number);
        }
    }
    UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        throw Exception(system_error("signalfd", errno));
    }
    return fd;
}

}  // namespace

BlockedSignals::BlockedSignals() {
    auto set = handled_signals();
    // A closed standard output, or a file at its limit (ulimit -f), is an error of write(),
    // reported by who writes.
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &set, &original_);
}

SignalSource::SignalSource(IoThread& io,
                           const BlockedSignals& blocked,
                           std::function<void(int)> on_signal)
    : watch_(io, open_signalfd(blocked)), on_signal_(std::move(on_signal)) {
    listen();
}

void SignalSource::listen() {
    watch_.wait([this] { read(); });
}

void SignalSource::read() {
    signalfd_siginfo info{};
    while (::read(watch_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        on_signal_(static_cast<int>(info.ssi_signo));
    }
    listen();
}

bool is_stop_request(int signal) noexcept {
    return std::ranges::find(kStopRequests, signal) != kStopRequests.end();
}

void stop_self() {
    sigset_t set{};
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    ::kill(::getpid(), SIGTSTP);
    // The signal is pending while it is blocked; unblocking delivers it, and the process stops in
    // this call.
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace hvd::launch
