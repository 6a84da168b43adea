// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/processes/signals.hpp"

#include <array>
#include <csignal>

namespace hvd::launch::agent {

/// As long as it lives, signals that ask for an end are obeyed also in a process that is the first
/// of its PID namespace (the entry point of a container): the kernel drops those that such a one
/// has no handler for. In any other process it does nothing.
class Pid1Signals final {
public:
    Pid1Signals() noexcept;
    ~Pid1Signals();
    Pid1Signals(const Pid1Signals&) = delete;
    Pid1Signals& operator=(const Pid1Signals&) = delete;

private:
    bool is_first_;
    std::array<struct sigaction, kStopSignals.size()> before_{};
};

}  // namespace hvd::launch::agent
