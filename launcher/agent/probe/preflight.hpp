// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_plan.hpp"
#include "launcher/wire/messages.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// The variables of the ranks of `plan`, which has at least one.
[[nodiscard]] Environment environment_of_ranks(const JobPlan& job, const HostPlan& plan);

/// The reasons why the ranks of `plan` could not run here: the working directory, the program. For
/// limits see limits.hpp.
[[nodiscard]] std::vector<wire::Problem> find_problems(const JobPlan& job, const HostPlan& plan);

/// A sentence about a /dev/shm so small that data loaders and NCCL will run out of it; else empty.
[[nodiscard]] std::string warn_of_small_shm();

}  // namespace hvd::launch::agent
