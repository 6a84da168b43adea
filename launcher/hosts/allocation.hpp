// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

enum class Scheduler { slurm, lsf, pbs, sge, kubernetes };

/// The hosts that a batch system gave the surrounding job.
struct Allocation {
    Scheduler scheduler{};
    std::string name;         // as printed: "Slurm job 42"
    std::string id;           // for the scheduler: "42"; empty where it does not say
    std::vector<Host> hosts;  // slots unset where only whole hosts were asked for

    friend bool operator==(const Allocation&, const Allocation&) = default;
};

/// Reads the variables of the batch systems, and the file that PBS, Grid Engine, LSF and
/// Kubernetes' mpi-operator name in one. Nothing outside of an allocation.
///
///     Slurm        SLURM_JOB_NODELIST; SLURM_TASKS_PER_NODE if tasks were asked for; the groups of
///                  a heterogeneous job one after the other
///     LSF          LSB_MCPU_HOSTS, else LSB_DJOB_HOSTFILE, else LSB_HOSTS; without the launch node
///                  that is the first of them under CSM
///     PBS          PBS_NODEFILE: a line for each slot
///     Grid Engine  PE_HOSTFILE: "host slots queue processors"
///     Kubernetes   OMPI_MCA_orte_default_hostfile, I_MPI_HYDRA_HOST_FILE or HYDRA_HOST_FILE, as
///                  the mpi-operator sets them in its launcher: to a file below /etc/mpi, or in a
///                  pod (KUBERNETES_SERVICE_HOST) to a file that names a host. Elsewhere they are
///                  settings of an MPI alone
///
/// Errors: invalid_argument with the variable, its value and the remedy.
[[nodiscard]] Result<std::optional<Allocation>> find_allocation(const Environment& environment);

/// The nodes of a Slurm job with their tasks: of each component of a heterogeneous one, else all as
/// one. Errors: as of find_allocation.
[[nodiscard]] Result<std::vector<std::vector<Host>>> slurm_components(
    const Environment& environment);

}  // namespace hvd::launch
