// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/plan/process_spec.hpp"

#include <cstddef>
#include <vector>

namespace hvd::launch {

/// A whole message to an agent, ready to send.
using Frame = std::vector<std::byte>;

/// What the agent of each host is asked, or told to start. Errors: invalid_argument, where that is
/// longer than agents take.
[[nodiscard]] Result<std::vector<Frame>> encode_checks(const LaunchPlan& plan);
[[nodiscard]] Result<std::vector<Frame>> encode_starts(const LaunchPlan& plan);

}  // namespace hvd::launch
