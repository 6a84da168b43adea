// SPDX-License-Identifier: Apache-2.0
//
// --mpi: finds out which MPI is installed, and has its mpirun start the ranks of a plan. --jsrun:
// has jsrun start them.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/mpi/flavor.hpp"
#include "launcher/plan/planner.hpp"
#include "launcher/remote/command/child_process.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/supervise/job_start.hpp"

#include <optional>
#include <span>
#include <string>

namespace hvd::launch {

/// Asks an mpirun which one it is while the agents are started. Does nothing without --mpi or
/// --jsrun.
class MpiProgram final {
public:
    /// `request` outlives this object.
    MpiProgram(const LaunchRequest& request, StarterContext context);
    MpiProgram(const MpiProgram&) = delete;
    MpiProgram& operator=(const MpiProgram&) = delete;
    ~MpiProgram();

    /// Waits until mpirun has said which one it is, where that must be asked. Comes before `wrap`.
    /// Errors: as of JobStart::wait_until.
    [[nodiscard]] Status learn(IoThread& io, JobStart& start);

    /// The plan with its ranks started by mpirun or jsrun. Errors:
    /// invalid_argument, also where there is no mpirun.
    [[nodiscard]] Result<LaunchPlan> wrap(LaunchPlan plan, std::span<const PlanHost> hosts);

private:
    [[nodiscard]] Result<LaunchPlan> try_wrap(LaunchPlan plan, std::span<const PlanHost> hosts);

    const LaunchRequest& request_;
    StarterContext context_;
    std::optional<Error> error_;
    ChildProcess child_;   // `mpirun --version`
    std::string version_;  // what it has said
};

}  // namespace hvd::launch
