// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/plan/planner.hpp"

namespace hvd::launch {

/// Of this process, with the id of a new job. Errors: the current directory is gone.
[[nodiscard]] Result<LaunchContext> make_launch_context();

/// Plans from the facts that --facts names: no agent, no rank. Errors: as of make_plan, and a file
/// that cannot be read.
[[nodiscard]] Result<Planned> plan_offline(const LaunchRequest& request);

}  // namespace hvd::launch
