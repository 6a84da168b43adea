// SPDX-License-Identifier: Apache-2.0
//
// A plan whose ranks the agents start → the same plan with its ranks started by mpirun or jsrun.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/mpi/command_line.hpp"
#include "launcher/plan/process_spec.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::mpi {

/// What of the user's wishes the line needs besides the plan.
struct WrapRequest {
    Kind kind = Kind::open_mpi_4;
    std::string program;  // mpirun, as it is to be executed
    std::string shim;     // the path of hvd-agent
    std::optional<int> ssh_port;
    std::string ssh_identity;
    std::vector<std::string> interfaces;
    std::vector<std::string> binding_args;
    std::vector<std::string> mpi_args;
    bool is_tcp = false;

    // jsrun only.
    std::vector<Host> allocation{};             // its hosts in their order, with their slots
    std::vector<std::vector<int>> host_cpus{};  // that may be used on each host of the plan
    std::vector<std::vector<int>> host_gpus{};  // of each, where ranks choose themselves; or empty
    std::string resource_folder{};              // for the file that jsrun may read
};

/// Places, pins and describes the ranks as before. jsrun is started on this machine, an mpirun on
/// the first host. Errors: as of make_line, and a host that is not in jsrun's allocation.
[[nodiscard]] Result<LaunchPlan> wrap_plan(LaunchPlan plan, const WrapRequest& request);

}  // namespace hvd::launch::mpi
