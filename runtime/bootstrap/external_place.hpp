// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of an external launcher find each other: by the kernel on one host, through a store
// that one of them serves otherwise.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/engine/config.hpp"

namespace hvd::rt {

class KeyValueStore;
class LauncherMpi;

struct ExternalOptions {
    const Environment& environment;
    const EngineConfig& config;
    int generation = 0;
    KeyValueStore* store = nullptr;  // that of the ranks, where it is not the launcher's
    LauncherMpi* mpi = nullptr;      // another one, where the launcher starts MPI programs
};

/// Errors: invalid_argument, unsupported, unavailable, timed_out (names the missing ranks).
[[nodiscard]] Result<WorldPlace> place_by_external_launcher(const coll::ExternalLaunch& launch,
                                                            const ExternalOptions& options,
                                                            Deadline deadline);

[[nodiscard]] std::string host_name();

}  // namespace hvd::rt
