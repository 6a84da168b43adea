// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/remote/factory.hpp"

#include <optional>
#include <span>
#include <utility>

#include <sys/types.h>

namespace hvd::launch {

/// A child that becomes the agent's guard, and the pipes to the agent.
struct AgentProcess {
    UniqueFd to_agent;
    UniqueFd from_agent;
    UniqueFd pidfd;
    pid_t pid = 0;
};

/// Executes the agent program. Errors: unavailable, with the files that were tried and the remedy.
[[nodiscard]] Result<AgentProcess> spawn_agent(const StarterContext& context);

/// An agent started before it is known whether it will be wanted.
class EarlyAgent final {
public:
    explicit EarlyAgent(std::span<char> command_line);

    /// Ends an agent that nobody took, and waits for it.
    ~EarlyAgent();
    EarlyAgent(const EarlyAgent&) = delete;
    EarlyAgent& operator=(const EarlyAgent&) = delete;

    /// Nothing, if it could not be started: a later try will say why.
    [[nodiscard]] std::optional<AgentProcess> take() { return std::exchange(agent_, std::nullopt); }

private:
    std::optional<AgentProcess> agent_;
};

}  // namespace hvd::launch
