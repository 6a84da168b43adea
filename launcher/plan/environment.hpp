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

/// The part of horovodrun's own environment that all ranks share: everything, or with --env-clean
/// the selection of --env-pass. Variables of an outer horovodrun or torchrun are left out.
[[nodiscard]] Environment shared_environment(const EnvironmentOptions& options, Environment own);

/// The part of `shared` that travels to another machine. Variables of this machine, this login or a
/// task of an outer launcher stay here: HOME, SSH_*, DISPLAY, OMPI_*, CUDA_VISIBLE_DEVICES, ...
/// Variables that
/// --env-pass names travel.
[[nodiscard]] Environment portable_environment(const EnvironmentOptions& options,
                                               const Environment& shared);

// The variables of the ranks on top of `shared`, in three parts, so that values common to many
// ranks are kept once. In rising order: defaults that give way to the caller's variables
// (OMP_NUM_THREADS, ...), the contract, tunables, and --env, which wins; only its GPU masks
// are narrowed down to the rank's own GPUs.

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
    std::string terminal{};   // the TERM of the terminal that the rank has, or empty
};

[[nodiscard]] Environment rank_variables(const EnvironmentOptions& options,
                                         const Environment& shared,
                                         RankSettings settings);

/// Refuses an --env that would break the contract between launcher and rank.
[[nodiscard]] Status check_env_set(const Environment& env_set);

}  // namespace hvd::launch
