// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/mpi/command_line.hpp"

namespace hvd::launch::mpi {

/// The line of jsrun, of the Job Step Manager (JSM) of IBM Spectrum LSF; for make_line. Options are
/// those of "jsrun command" and "Explicit Resource File (ERF) format" in IBM Spectrum LSF 10.1's
/// documentation, as the user guide of OLCF's Summit explains and uses them.
///
/// Where all hosts of the allocation have as many ranks, slots and GPUs, each is one resource set,
/// so that its ranks see all GPUs of the host as in native mode; else an explicit resource file
/// says what each rank gets. Errors: invalid_argument.
[[nodiscard]] Result<Line> jsrun_line(const Job& job);

}  // namespace hvd::launch::mpi
