// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/plan/planner.hpp"

namespace hvd::launch {

/// What the planner needs of the user's wishes and of this process: its environment and directory.
/// Hosts and starters are left to the caller. Errors: the directory is gone.
[[nodiscard]] Result<PlanRequest> make_plan_request(const LaunchRequest& request);

/// Plans from the facts that --facts names: no agent, no rank. Errors: as of make_plan, and a file
/// that cannot be read.
[[nodiscard]] Result<Planned> plan_offline(const LaunchRequest& request);

}  // namespace hvd::launch
