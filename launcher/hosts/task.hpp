// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/task.hpp"

#include <optional>
#include <string_view>

namespace hvd::launch {

/// Reads the variables of horovodrun, Open MPI, PMIx, PMI, torchrun, Flux, jsrun and Slurm in what
/// innermost_environment leaves; the innermost launcher counts, or the one that HOROVOD_LAUNCHER
/// names, or none. Nothing where none of them has started this process, and for the only task of a
/// step of a batch system, in which people work by hand. Pure. Errors: invalid_argument with the
/// variable.
[[nodiscard]] Result<std::optional<Task>> find_task(const Environment& environment);

/// Whether the command is an mpirun or mpiexec, by its name.
[[nodiscard]] bool is_mpirun(std::string_view program);

}  // namespace hvd::launch
