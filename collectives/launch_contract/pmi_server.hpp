// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"

#include <optional>

#include <sys/types.h>

namespace hvd::coll {

/// The process at the other end of PMI_FD: that of the launcher on this host, above this process.
/// An mpiexec inside of another one's rank may give its rank the very same variables, but it has
/// another server. Nothing where there is none, or where a program in between has closed it.
[[nodiscard]] std::optional<pid_t> find_pmi_server(const Environment& environment);

}  // namespace hvd::coll
