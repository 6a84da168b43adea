// SPDX-License-Identifier: Apache-2.0
//
// The spine of `horovodrun doctor`: the stations of a job up to the plan, and no rank.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/remote/factory.hpp"

namespace hvd::launch {

inline constexpr int kExitUnwell = 1;  // something is wrong with a host, a link or the plan

/// Examines the hosts, prints what was found on standard output, and returns the exit code.
[[nodiscard]] int examine(const Examine& request, EarlyAgentPtr early_agent);

}  // namespace hvd::launch
