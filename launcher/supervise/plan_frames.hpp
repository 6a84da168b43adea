// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/fleet/agent_streams.hpp"
#include "launcher/model/launch_plan.hpp"

#include <vector>

namespace hvd::launch {

/// What the agent of each host is asked, or told to start. Errors: invalid_argument, where that is
/// longer than agents take.
[[nodiscard]] Result<std::vector<Frame>> encode_checks(const LaunchPlan& plan);
[[nodiscard]] Result<std::vector<Frame>> encode_starts(const LaunchPlan& plan);

}  // namespace hvd::launch
