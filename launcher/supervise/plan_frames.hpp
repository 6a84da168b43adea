// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/fleet/agent_streams.hpp"
#include "launcher/model/launch_plan.hpp"

#include <vector>

namespace hvd::launch {

/// The preflight question, or the plan, for the agent of each host. Errors: invalid_argument, where
/// a frame is longer than agents accept.
[[nodiscard]] Result<std::vector<Frame>> encode_checks(const LaunchPlan& plan);
[[nodiscard]] Result<std::vector<Frame>> encode_starts(const LaunchPlan& plan);

}  // namespace hvd::launch
