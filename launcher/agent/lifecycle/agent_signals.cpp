// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/agent_signals.hpp"

#include "collectives/base/error.hpp"
#include "launcher/agent/lifecycle/agent.hpp"
#include "launcher/agent/processes/signals.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// Slurm sends these to steps too; USR2 has another meaning besides (kGuardDiedSignal).
constexpr std::array kStepSignals{SIGUSR1, SIGTSTP, SIGCONT};

UniqueFd open_signals(bool is_slurm_step) {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGCHLD);
    ::sigaddset(&wanted, kGuardDiedSignal);
    for (const int number : kStopSignals) {
        ::sigaddset(&wanted, number);
    }
    for (const int number : kStepSignals) {
        if (is_slurm_step) {
            ::sigaddset(&wanted, number);
        }
    }
    UniqueFd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        throw Exception(system_error("signalfd", errno));
    }
    return fd;
}

}  // namespace

AgentSignals::AgentSignals(EventLoop& loop,
                           pid_t guard,
                           bool is_slurm_step,
                           std::function<void(const AgentSignal&)> on_signal)
    : guard_(guard), on_signal_(std::move(on_signal)), fd_(open_signals(is_slurm_step)) {
    loop.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { read(); });
}

void AgentSignals::read() {
    signalfd_siginfo info{};
    while (::read(fd_.get(), &info, sizeof info) == sizeof info) {
        const auto sender = static_cast<pid_t>(info.ssi_pid);
        const bool is_passed_on = info.ssi_code == SI_QUEUE && sender == guard_;
        on_signal_({.number = static_cast<int>(info.ssi_signo),
                    .sender = is_passed_on ? info.ssi_int : sender});
    }
}

bool is_ignored(int number) {
    struct sigaction now {};
    return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace hvd::launch::agent
