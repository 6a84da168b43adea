// SPDX-License-Identifier: Apache-2.0
//
// A plan whose ranks the agents start → the same plan with its ranks started by mpirun or jsrun.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/mpi/command_line.hpp"
#include "launcher/plan/planner.hpp"

#include <span>
#include <string>

namespace hvd::launch::mpi {

/// The programs that can start ranks here.
struct Installation {
    Kind kind = Kind::open_mpi_4;
    std::string shim;               // the path of hvd-agent
    std::string resource_folder{};  // for the file that jsrun may read
};

/// Places, pins and describes the ranks as before. jsrun is started on this machine, an mpirun on
/// the first host. `hosts` are those of the plan. Errors: as of make_line, and a host that is not
/// in jsrun's allocation.
[[nodiscard]] Result<LaunchPlan> wrap_plan(LaunchPlan plan,
                                           const LaunchRequest& request,
                                           std::span<const PlanHost> hosts,
                                           const Installation& found);

}  // namespace hvd::launch::mpi
