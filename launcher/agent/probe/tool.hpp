// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/agent/processes/spawner.hpp"

#include <string>
#include <vector>

namespace hvd::launch::agent {

/// Runs a helper with our environment and returns its standard output; its standard
/// error is discarded. The helper is killed at the deadline, and when `launcher`, a descriptor that
/// we read, reaches its end. argv[0] is a path. Errors: unavailable (it cannot be started, it
/// failed), timed_out, aborted.
[[nodiscard]] Result<std::string> run_tool(std::vector<std::string> argv,
                                           const Inheritance& given,
                                           int launcher,
                                           Deadline deadline);

}  // namespace hvd::launch::agent
