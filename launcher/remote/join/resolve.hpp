// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/remote/ssh/name_lookup.hpp"

#include <string>
#include <vector>

namespace hvd::launch {

class IoThread;

/// The addresses of a literal ("10.0.0.1", "fd00::1") or a name, at least one. Runs the loop; who
/// stops it ends the look-up. Errors: unavailable; timed_out, also where it was stopped.
[[nodiscard]] Result<std::vector<ssh::Address>> resolve(IoThread& io,
                                                        const std::string& host,
                                                        int port,
                                                        Deadline deadline);

}  // namespace hvd::launch
