// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/io/event_loop.hpp"

#include <functional>

#include <sys/types.h>

namespace hvd::launch::agent {

struct AgentSignal {
    int number = 0;
    pid_t sender = 0;  // 0: from outside of this PID namespace
};

/// The signals that the agent gets, by signalfd. What the guard got and passes on has the sender
/// that the guard had.
class AgentSignals final {
public:
    /// Throws Exception when the process is out of descriptors.
    AgentSignals(EventLoop& loop,
                 pid_t guard,
                 bool is_slurm_step,
                 std::function<void(const AgentSignal&)> on_signal);

private:
    void read();

    pid_t guard_;
    std::function<void(const AgentSignal&)> on_signal_;
    UniqueFd fd_;
};

/// Whether this process ignores the signal: a blocked one is queued all the same.
[[nodiscard]] bool is_ignored(int number);

}  // namespace hvd::launch::agent
