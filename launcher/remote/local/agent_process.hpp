// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/remote/factory.hpp"

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

}  // namespace hvd::launch
