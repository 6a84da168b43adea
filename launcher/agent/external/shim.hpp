// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/hosts/task.hpp"

#include <span>
#include <string_view>

namespace hvd::launch::agent {

/// Which of how many an mpirun made this process. `size` is 0 where it does not say.
struct MpiTask {
    std::string_view launcher;  // as printed
    int rank = 0;
    int size = 0;
    bool starts_in_turn = false;  // see MpiLauncher

    friend bool operator==(const MpiTask&, const MpiTask&) = default;
};

/// From the variables of Open MPI, PMI, jsrun and PMIx. Pure. Errors: invalid_argument with the
/// variable.
[[nodiscard]] Result<MpiTask> read_mpi_task(const Environment& environment);

/// Becomes the rank that mpirun has started: learns from the agent of this host how the rank was
/// planned, pins itself, takes care that it dies with its launcher, and executes `command`. Every
/// descriptor that it was given stays open. Returns only when that has failed: the exit code, after
/// a sentence on standard error.
[[nodiscard]] int run_shim(std::span<char* const> command);

/// Becomes the task of another launcher that horovodrun stands in front of: there is no agent, the
/// ranks find each other by what that launcher tells them. Where the launcher has not pinned it,
/// it gets its share of the CPUs of this host, if `pins`. Else as run_shim.
[[nodiscard]] int run_task(const Task& task,
                           Environment environment,
                           bool pins,
                           std::span<char* const> command);

}  // namespace hvd::launch::agent
