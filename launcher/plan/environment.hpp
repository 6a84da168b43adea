// SPDX-License-Identifier: Apache-2.0
//
// Which variables a rank gets.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "launcher/model/launch_request.hpp"

#include <optional>
#include <string>

namespace hvd::launch {

/// What of horovodrun's own environment all ranks share: everything, or with --env-clean what
/// --env-pass selects. Variables of another launcher of ours, around this one, stay behind.
[[nodiscard]] Environment shared_environment(const EnvironmentOptions& options, Environment own);

/// What of `shared` travels to another machine. What belongs to this machine, this login or a task
/// of an outer launcher stays here: HOME, SSH_*, DISPLAY, OMPI_*, CUDA_VISIBLE_DEVICES, ... But
/// what --env-pass names was asked for, and travels.
[[nodiscard]] Environment portable_environment(const EnvironmentOptions& options,
                                               const Environment& shared);

// What is set for the ranks on top of `shared`, in three parts, so that what many ranks have in
// common is kept once. In rising order: defaults that give way to what the caller has
// (OMP_NUM_THREADS, ...), the contract, tunables, and --env, which wins; only what it says about
// GPUs is narrowed down to the rank's own.

struct JobSettings {
    coll::LaunchContract contract;  // size and id of the job count
    std::string master_address;
    int master_port = 0;  // 0: none was found
    bool is_one_host = true;
};

[[nodiscard]] Environment job_variables(const EnvironmentOptions& options,
                                        const Environment& shared,
                                        const JobSettings& settings);

struct HostSettings {
    coll::LaunchContract contract;  // what it says of the host counts
    int cpus = 1;                   // granted to each rank, but where a rank's own settings differ
};

[[nodiscard]] Environment host_variables(const EnvironmentOptions& options,
                                         const Environment& shared,
                                         const HostSettings& settings);

struct RankSettings {
    coll::Topology topology;
    std::optional<int> cpus;  // where they are not those of HostSettings
    Environment gpus;         // what gpu_shares.hpp decided
};

[[nodiscard]] Environment rank_variables(const EnvironmentOptions& options,
                                         const Environment& shared,
                                         RankSettings settings);

/// Refuses an --env that would break the contract between launcher and rank.
[[nodiscard]] Status check_env_set(const Environment& env_set);

}  // namespace hvd::launch
