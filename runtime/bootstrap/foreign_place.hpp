// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a launcher that is not ours find each other: by the kernel on one host, at a
// meeting point otherwise.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/engine/config.hpp"

namespace hvd::rt {

class Board;
class LauncherMpi;

struct ForeignOptions {
    const Environment& environment;
    const EngineConfig& config;
    int generation = 0;
    Board* board = nullptr;      // that of the ranks, where it is not the launcher's
    LauncherMpi* mpi = nullptr;  // another one, where the launcher starts MPI programs
};

/// Errors: invalid_argument, unsupported, unavailable, timed_out (who is missing).
[[nodiscard]] Result<WorldPlace> place_by_foreign(const coll::ExternalLaunch& launch,
                                                  const ForeignOptions& options,
                                                  Deadline deadline);

/// A key of its own for one world. Errors: as of system_error.
[[nodiscard]] Result<std::vector<std::byte>> random_world_key();

[[nodiscard]] std::string host_name();

}  // namespace hvd::rt
