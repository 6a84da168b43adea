// SPDX-License-Identifier: Apache-2.0
//
// What other launchers tell a rank: mpirun of Open MPI, mpiexec of MPICH and Intel MPI.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/topology.hpp"

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::rt {

struct ForeignLaunch {
    std::string_view launcher;  // for people
    coll::Topology topology;
    std::string
        mark;  // how an entry of every environment in the job begins, but not the launcher's

    friend bool operator==(const ForeignLaunch&, const ForeignLaunch&) = default;
};

/// Nothing where no launcher that we know has started this process. Pure.
/// Errors: invalid_argument that names the variable that is missing or impossible.
[[nodiscard]] Result<std::optional<ForeignLaunch>> decode_foreign_launch(
    const Environment& environment);

/// A process and the moment of its start, which together are never used twice.
struct ProcessId {
    pid_t pid = 0;
    std::string start_time;  // as in /proc/PID/stat
};

/// The nearest ancestor of this process whose environment lacks `mark`: wrappers such as a shell
/// inherit it, the launcher itself does not have it. Errors: unavailable.
[[nodiscard]] Result<ProcessId> find_launcher(std::string_view mark);

}  // namespace hvd::rt
