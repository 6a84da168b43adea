// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/pid1_signals.hpp"

#include "launcher/model/exit_code.hpp"

#include <cstddef>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

void leave(int number) {
    ::_exit(exit_code_of_signal(number));
}

}  // namespace

Pid1Signals::Pid1Signals() noexcept : is_first_(::getpid() == 1) {
    if (!is_first_) {
        return;
    }
    struct sigaction obey {};
    obey.sa_handler = leave;
    for (std::size_t index = 0; index < kStopSignals.size(); ++index) {
        (void)::sigaction(kStopSignals[index], nullptr, &before_[index]);
        if (before_[index].sa_handler == SIG_DFL) {
            (void)::sigaction(kStopSignals[index], &obey, nullptr);
        }
    }
}

Pid1Signals::~Pid1Signals() {
    for (std::size_t index = 0; is_first_ && index < kStopSignals.size(); ++index) {
        (void)::sigaction(kStopSignals[index], &before_[index], nullptr);
    }
}

}  // namespace hvd::launch::agent
