// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/remote/factory.hpp"

#include <string>

namespace hvd::launch {

/// Where the program hvd-agent lies: HOROVOD_AGENT, or beside horovodrun. Errors: unavailable, with
/// the files that were tried and the remedy.
[[nodiscard]] Result<std::string> find_agent_file(const StarterContext& context);

}  // namespace hvd::launch
