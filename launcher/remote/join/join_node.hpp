// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/requests.hpp"

namespace hvd::launch {

/// --join: finds the launcher and becomes hvd-agent, which connects to it. Returns only when that
/// fails, with the exit code.
[[nodiscard]] int join(const JoinRequest& request);

}  // namespace hvd::launch
