// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_request.hpp"
#include "launcher/plan/print.hpp"

#include <span>

namespace hvd::launch {

/// --dry-run: prints the plan on standard output. Gives the exit code.
[[nodiscard]] int print_plan(const DryRunOptions& options,
                             const LaunchPlan& plan,
                             std::span<const AgentWay> agents = {});

/// --facts: the same for the hosts that a file describes.
[[nodiscard]] int print_offline_plan(const LaunchRequest& request);

}  // namespace hvd::launch
