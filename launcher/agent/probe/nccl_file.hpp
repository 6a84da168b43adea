// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_plan.hpp"

#include <string>

namespace hvd::launch::agent {

/// The NCCL that the ranks of `plan` would load, found by names of files alone: no Python runs and
/// no library is loaded. In this order: HOROVOD_NCCL_LIBRARY; the Python packages of the command's
/// interpreter, or of `python3` in PATH where the command is no Python; where the dynamic loader
/// looks.
[[nodiscard]] NcclFile find_nccl(const JobPlan& job, const HostPlan& plan);

/// The same for one command, started in `cwd` with `environment`.
[[nodiscard]] NcclFile find_nccl(const std::string& command,
                                 const std::string& cwd,
                                 const Environment& environment);

}  // namespace hvd::launch::agent
