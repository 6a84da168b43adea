// SPDX-License-Identifier: Apache-2.0
//
// Slurm's variables by their scope: an allocation's are the same for the whole job, others
// hold on one node or for one task only.
#pragma once

#include "collectives/base/env.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// Says which task of which step a process is: SLURM_PROCID, SLURM_STEP_ID, PMI_RANK. A rank that
/// found those of its agent would take itself for rank 0.
[[nodiscard]] bool is_of_slurm_task(std::string_view name) noexcept;

/// Is about the node that has it: SLURMD_NODENAME, SLURM_CPUS_ON_NODE.
[[nodiscard]] bool is_of_slurm_node(std::string_view name) noexcept;

/// Whether there is an srun in PATH: in a container there may be none, though the variables of the
/// allocation came along.
[[nodiscard]] bool has_srun(const Environment& environment);

/// The variables that an agent under srun removes: those of its task, and those of the agents'
/// step, which have the names of the allocation's (SLURM_NTASKS=2). horovodrun sends the
/// allocation's.
[[nodiscard]] std::vector<std::string> step_variables(const Environment& environment);

/// The environment of srun: everything but the variables by which Slurm repeats the options of
/// sbatch and salloc (SLURM_GPUS_PER_TASK, SRUN_CPUS_PER_TASK, ...). They are about ranks, and
/// would give an agent a part of its node only.
[[nodiscard]] Environment srun_environment(const Environment& environment);

}  // namespace hvd::launch
