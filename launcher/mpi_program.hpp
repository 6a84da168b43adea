// SPDX-License-Identifier: Apache-2.0
//
// --mpi: finds out which MPI is installed, and has its mpirun start the ranks of a plan. --jsrun:
// has jsrun start them.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/mpi/flavor.hpp"
#include "launcher/mpi_memory.hpp"
#include "launcher/plan/process_spec.hpp"
#include "launcher/remote/command/child_process.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/supervise/supervisor.hpp"

#include <optional>
#include <span>
#include <string>

namespace hvd::launch {

/// Asks an mpirun which one it is while the agents are started, if it is not known from the last
/// time. Does nothing without --mpi or --jsrun.
class MpiProgram final {
public:
    /// `request` outlives this object.
    MpiProgram(const LaunchRequest& request, StarterContext context);
    MpiProgram(const MpiProgram&) = delete;
    MpiProgram& operator=(const MpiProgram&) = delete;
    ~MpiProgram();

    /// Waits until mpirun has said which one it is, where that must be asked. Comes before `wrap`.
    /// Errors: as of Supervisor::wait_until.
    [[nodiscard]] Status learn(IoThread& io, Supervisor& supervisor);

    /// The plan with its ranks started by mpirun or jsrun. `facts` are those of its hosts. Errors:
    /// unavailable (there is no mpirun), unsupported, invalid_argument.
    [[nodiscard]] Result<LaunchPlan> wrap(LaunchPlan plan, std::span<const HostFacts> facts);

private:
    [[nodiscard]] Result<mpi::Kind> find_kind();

    const LaunchRequest& request_;
    StarterContext context_;
    std::optional<MpiMemory> memory_;
    std::optional<mpi::Kind> known_;  // from what it said the last time
    std::optional<Error> error_;
    ChildProcess child_;   // `mpirun --version`
    std::string version_;  // what it has said
};

}  // namespace hvd::launch
