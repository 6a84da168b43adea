// SPDX-License-Identifier: Apache-2.0
//
// The variables that a task of another launcher gets from the horovodrun in front of it.
#pragma once

#include "collectives/base/env.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/model/task.hpp"

#include <string>

namespace hvd::launch {

/// Puts the variables of the ranks' contract into `environment`, as far as the launcher tells them,
/// and takes others out, which are of somebody else's. HOROVOD_TASK_OF marks them as told by that
/// launcher, which the runtime then asks itself. Pure.
void set_contract(Environment& environment, const Task& task, const std::string& host);

/// The variables that native mode would set for this task's GPUs, where its place on the host is
/// known. A mask of the launcher that gives each task its own GPUs stays unchanged. Runs
/// hvd-gpu-probe.
[[nodiscard]] Environment own_gpus(const BindingOptions& binding,
                                   const Task& task,
                                   const Environment& environment);

}  // namespace hvd::launch
