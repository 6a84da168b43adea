// SPDX-License-Identifier: Apache-2.0
//
// The spine of the launcher: calls the folders in the order in which a job passes through them.
#pragma once

#include "launcher/model/launch_request.hpp"

namespace hvd::launch {

/// Runs the job to its end and returns horovodrun's exit code. Everything that a person must know
/// was printed on standard error by then. Does not return, but ends the process with that code,
/// when the console is blocked for good.
[[nodiscard]] int run(const LaunchRequest& request);

}  // namespace hvd::launch
