// SPDX-License-Identifier: Apache-2.0
//
// The variables of each launcher, from the innermost to the outermost: each of them keeps the
// variables of those around it.
#pragma once

#include "collectives/launch_contract/external_launch.hpp"

#include <array>
#include <string_view>

namespace hvd::coll {

// Names of one thing; the first that is set counts. An empty one is none.
using Names = std::array<std::string_view, 3>;

/// The names that a launcher gives to its variables.
struct LauncherVariables {
    Launcher launcher;
    std::string_view word;  // for HOROVOD_LAUNCHER
    std::string_view name;  // in messages
    Names signs;            // any of them: this launcher has started us, or an outer one
    Names rank;
    Names size;
    Names local_rank;
    Names local_size;
    Names node;
    Names job;  // all that are set, together
    bool is_mpi = false;
    std::string_view nodes{};           // how many hosts there are
    std::string_view tasks_of_nodes{};  // of each host: "2(x3),1"
    std::string_view server{};          // the task's connection to the launcher
    int least_size = 1;                 // a smaller world is that of an interactive shell
};

inline constexpr auto kLauncherVariables = std::to_array<LauncherVariables>({
    {.launcher = Launcher::ompi,
     .word = "ompi",
     .name = "mpirun",
     .signs = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     .rank = {"OMPI_COMM_WORLD_RANK"},
     .size = {"OMPI_COMM_WORLD_SIZE"},
     .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     .node = {},
     .job = {"PMIX_NAMESPACE"},
     .is_mpi = true},
    {.launcher = Launcher::pmix,  // without Open MPI's variables: prun, and other schedulers
     .word = "pmix",
     .name = "PMIx",
     .signs = {"PMIX_RANK"},
     .rank = {"PMIX_RANK"},
     .size = {},  // see PmixStore
     .local_rank = {},
     .local_size = {},
     .node = {},
     .job = {"PMIX_NAMESPACE"},
     .is_mpi = true},
    {.launcher = Launcher::pmi,
     .word = "pmi",
     .name = "mpiexec",
     .signs = {"PMI_RANK", "PMI_SIZE"},
     .rank = {"PMI_RANK"},
     .size = {"PMI_SIZE"},
     .local_rank = {"MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"},
     .local_size = {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"},
     .node = {},
     .job = {"PMI_JOBID"},
     .is_mpi = true,
     .server = "PMI_FD"},
    {.launcher = Launcher::torchrun,
     .word = "torchrun",
     .name = "torchrun",
     .signs = {"TORCHELASTIC_RUN_ID"},
     .rank = {"RANK"},
     .size = {"WORLD_SIZE"},
     .local_rank = {"LOCAL_RANK"},
     .local_size = {"LOCAL_WORLD_SIZE"},
     .node = {"GROUP_RANK"},
     .job = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"},
     .nodes = "GROUP_WORLD_SIZE"},
    {.launcher = Launcher::flux,
     .word = "flux",
     .name = "flux run",
     .signs = {"FLUX_TASK_RANK"},
     .rank = {"FLUX_TASK_RANK"},
     .size = {"FLUX_JOB_SIZE"},
     .local_rank = {"FLUX_TASK_LOCAL_ID"},
     .local_size = {},  // see read_local_size
     .node = {},
     .job = {"FLUX_JOB_ID"},
     .least_size = 2},
    {.launcher = Launcher::jsrun,
     .word = "jsrun",
     .name = "jsrun",
     .signs = {"JSM_NAMESPACE_RANK"},
     .rank = {"JSM_NAMESPACE_RANK"},
     .size = {"JSM_NAMESPACE_SIZE"},
     .local_rank = {"JSM_NAMESPACE_LOCAL_RANK"},
     .local_size = {"JSM_NAMESPACE_LOCAL_SIZE"},
     .node = {},
     .job = {"LSB_JOBID", "JSM_NAMESPACE"},
     .is_mpi = true,
     .least_size = 2},
    {.launcher = Launcher::slurm,
     .word = "slurm",
     .name = "srun",
     .signs = {"SLURM_STEP_ID"},  // without a step the others mean an allocation
     .rank = {"SLURM_PROCID"},
     .size = {"SLURM_STEP_NUM_TASKS"},
     .local_rank = {"SLURM_LOCALID"},
     .local_size = {},  // see read_local_size
     .node = {"SLURM_NODEID"},
     .job = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     .nodes = "SLURM_STEP_NUM_NODES",
     .tasks_of_nodes = "SLURM_STEP_TASKS_PER_NODE",
     .least_size = 2},
});

}  // namespace hvd::coll
