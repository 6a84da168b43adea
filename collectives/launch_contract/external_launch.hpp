// SPDX-License-Identifier: Apache-2.0
//
// The launcher of this process: the one place that reads launchers' variables. Variables of several
// launchers are usual (mpirun in a Slurm job); the innermost launcher's count.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace hvd::coll {

/// From the innermost to the outermost.
enum class Launcher { horovodrun, ompi, pmix, pmi, torchrun, flux, jsrun, slurm, none };

/// For messages: "Open MPI's mpirun".
[[nodiscard]] std::string_view describe(Launcher launcher) noexcept;

/// This process as the innermost launcher describes it. Of horovodrun only that it is the one:
/// decode_launch_contract reads the rest.
struct ExternalLaunch {
    Launcher launcher = Launcher::none;
    int rank = 0;
    int size = 1;                     // 0: the PMIx server tells
    std::optional<int> local_rank{};  // within its host; some launchers do not say
    std::optional<int> local_size{};
    std::optional<int> node{};  // the launcher's number of this host
    std::string job{};          // the same on all ranks of the job, and of no other job
    std::string job_entry{};    // an entry, or "NAME=" for any value, that is in the environment of
                                // this process and those it starts, but not in the launcher's own

    friend bool operator==(const ExternalLaunch&, const ExternalLaunch&) = default;
};

/// Pure, of what innermost_environment leaves. HOROVOD_LAUNCHER names the launcher instead;
/// HOROVOD_CONTROLLER=mpi leaves only those that start MPI programs, gloo only the others. Errors:
/// invalid_argument for an incomplete or impossible set of variables, with all of them, and where
/// HOROVOD_CONTROLLER leaves no launcher, but has left out one that may have started more ranks.
[[nodiscard]] Result<ExternalLaunch> decode_external_launch(const Environment& environment);

/// This process as the innermost launcher of MPI programs describes it, whether there is another or
/// not. Pure. Nothing where there is none, or where its variables describe no rank.
[[nodiscard]] std::optional<ExternalLaunch> decode_mpi_launch(const Environment& environment);

}  // namespace hvd::coll
