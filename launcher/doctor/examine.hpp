// SPDX-License-Identifier: Apache-2.0
//
// The spine of `horovodrun doctor`: the stations of a job up to the plan, and no rank.
#pragma once

#include "launcher/model/requests.hpp"

namespace hvd::launch {

/// Examines the hosts, prints what was found on standard output, and returns the exit code.
[[nodiscard]] int examine(const Examine& request);

}  // namespace hvd::launch
