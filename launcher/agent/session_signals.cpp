// SPDX-License-Identifier: Apache-2.0
//
// What the agent does when a signal comes to it.
#include "launcher/agent/first_process.hpp"
#include "launcher/agent/session.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <sys/signalfd.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

bool is_ignored(int number) {
    struct sigaction now {};
    return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

/// Who sent it: the guard passes on what it got itself, with the sender.
std::string describe_signal(const signalfd_siginfo& info, pid_t guard) {
    const bool is_passed_on =
        info.ssi_code == SI_QUEUE && info.ssi_pid == static_cast<std::uint32_t>(guard);
    const auto sender = is_passed_on ? info.ssi_int : static_cast<std::int32_t>(info.ssi_pid);
    const auto* name = ::sigabbrev_np(static_cast<int>(info.ssi_signo));
    return "the agent got SIG" + std::string(name == nullptr ? "?" : name) +
           (sender == 0 ? " from outside of its container"
                        : " from process " + std::to_string(sender));
}

}  // namespace

void Session::hear_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
        const int number = static_cast<int>(info.ssi_signo);
        const auto now = std::chrono::steady_clock::now();
        if (number == SIGCHLD) {
            is_child_change_ = true;
        } else if (number == kGuardDiedSignal) {
            if (::getppid() != setup_.guard) {
                note("the agent's guard process was killed: ending the job");
                perform(ending_.stop({}, now));
            } else if (setup_.is_slurm_step) {
                hear_step_signal(number);
            }
        } else if (setup_.is_slurm_step && (ranks_ || !is_stop_signal(number))) {
            hear_step_signal(number);
        } else if (!is_ignored(number)) {
            if (std::exchange(stop_signal_, number) != number) {
                note(describe_signal(info, setup_.guard) + ": ending the job");
            }
            perform(ending_.stop(grace_, now));
        }
    }
}

/// The ranks, which are of our step, have it already.
void Session::hear_step_signal(int number) {
    if (step_signals_.hear(number, std::chrono::steady_clock::now()) && has_first_rank_ &&
        number != SIGCONT) {
        control_.send(wire::StepSignal{.signal = number});
    }
}

}  // namespace hvd::launch::agent
