// SPDX-License-Identifier: Apache-2.0
//
// The spine of the launcher: calls the stations in the order in which a job passes through them.
#pragma once

#include "launcher/cli/options.hpp"

namespace hvd::launch {

/// Runs the job to its end and returns horovodrun's exit code (launcher/README.md lists them). What
/// a person must know was printed on standard error by then.
[[nodiscard]] int run(const LaunchRequest& request);

}  // namespace hvd::launch
