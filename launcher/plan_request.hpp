// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/plan/planner.hpp"

#include <string>
#include <vector>

namespace hvd::launch {

/// What the planner needs of the user's wishes and of this process: its environment and directory.
/// Errors: the directory is gone.
[[nodiscard]] Result<PlanRequest> make_plan_request(const LaunchRequest& request,
                                                    std::vector<Host> hosts,
                                                    std::vector<std::string> starters);

}  // namespace hvd::launch
