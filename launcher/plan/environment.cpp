// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/environment.hpp"

#include "collectives/base/text.hpp"
#include "launcher/hosts/slurm_variables.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace hvd::launch {
namespace {

/// Of this machine, this login, or of a task of an outer launcher. Globs.
constexpr std::array<std::string_view, 26> kStaysHere{
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "OLDPWD",
    "HOSTNAME",
    "SHLVL",
    "TERM*",
    "DISPLAY",
    "SSH_*",
    "XDG_*",
    "DBUS_*",
    "BASH_FUNC_*",
    "*VISIBLE_DEVICES",
    "_",
    "OMPI_*",
    "PMIX_*",
    "PMI_*",
    "PRTE_*",
    "HYDRA_*",
    "MPI_LOCAL*",
    "FLUX_TASK_*",
    "JSM_*",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
};

/// The user's; mpirun gives its tasks such ones, too.
bool is_mpi_setting(std::string_view name, const Environment& environment) {
    const bool is_of_mca = name.starts_with("OMPI_MCA_") || name.starts_with("PRTE_MCA_");
    return is_of_mca && !environment.contains("OMPI_COMM_WORLD_RANK") &&
           !environment.contains("PMIX_RANK");
}

bool stays_here(std::string_view name, const Environment& environment) {
    return is_of_slurm_task(name) || is_of_slurm_node(name) ||
           (!is_mpi_setting(name, environment) &&
            std::ranges::any_of(kStaysHere,
                                [&](std::string_view glob) { return matches_glob(name, glob); }));
}

bool is_contract(std::string_view name) noexcept {
    return coll::is_of_contract(name) || name == coll::kEnvCaller;
}

/// Those of a torchrun around us go with RANK and MASTER_ADDR, which are ours in a rank: torch
/// would look for the torchrun's store at our address.
constexpr std::string_view kOuterTorchrun = "TORCHELASTIC_";

/// Names the launcher around us; that of the ranks is this one.
constexpr std::string_view kOuterLauncher = "HOROVOD_LAUNCHER";

/// Adds variables that neither the user has set nor `variables` contains already.
void add(Environment& variables, const EnvironmentOptions& options, Environment weaker) {
    std::erase_if(weaker, [&](const auto& entry) {
        return options.set.contains(entry.first) || options.tunables.contains(entry.first);
    });
    variables.merge(weaker);
}

/// Adds a good value that gives way to the caller's own.
void add_default(Environment& variables,
                 const EnvironmentOptions& options,
                 const Environment& shared,
                 std::string_view name,
                 std::string value) {
    if (!shared.contains(name)) {
        add(variables, options, {{std::string(name), std::move(value)}});
    }
}

constexpr std::string_view kThreads = "OMP_NUM_THREADS";

}  // namespace

Environment shared_environment(const EnvironmentOptions& options, Environment own) {
    std::erase_if(own, [&](const auto& entry) {
        const auto matches = [&](const std::string& glob) {
            return matches_glob(entry.first, glob);
        };
        return is_contract(entry.first) || entry.first == kOuterLauncher ||
               entry.first.starts_with(kOuterTorchrun) ||
               (options.is_clean && std::ranges::none_of(options.pass, matches));
    });
    return own;
}

Environment portable_environment(const EnvironmentOptions& options, const Environment& shared) {
    Environment portable = shared;
    std::erase_if(portable, [&](const auto& entry) {
        const auto matches = [&](std::string_view glob) { return matches_glob(entry.first, glob); };
        return stays_here(entry.first, shared) && std::ranges::none_of(options.pass, matches);
    });
    return portable;
}

Environment job_variables(const EnvironmentOptions& options,
                          const Environment& shared,
                          const JobSettings& settings) {
    // `merge` keeps what is there, so the strongest comes first.
    Environment variables = options.set;
    variables.merge(Environment(options.tunables));
    add(variables, options, coll::encode_for_job(settings.contract));
    add(variables, options, {{"HOROVOD_CONTROLLER", "gloo"}});
    // So that scripts written for torch.distributed start too.
    add(variables, options,
        {{"WORLD_SIZE", std::to_string(settings.contract.topology.size)},
         {"MASTER_ADDR", settings.master_address}});
    if (settings.master_port != 0) {
        add(variables, options, {{"MASTER_PORT", std::to_string(settings.master_port)}});
    }
    add_default(variables, options, shared, "HOROVOD_CPU_OPERATIONS", "gloo");
    add_default(variables, options, shared, "PYTHONUNBUFFERED", "1");
    if (settings.is_one_host) {
        add_default(variables, options, shared, "HOROVOD_GLOO_IFACE", "lo");
        add_default(variables, options, shared, "NCCL_SOCKET_IFNAME", "lo");
    }
    return variables;
}

Environment host_variables(const EnvironmentOptions& options,
                           const Environment& shared,
                           const HostSettings& settings) {
    Environment variables;
    add(variables, options, coll::encode_for_host(settings.contract));
    add(variables, options,
        {{"LOCAL_WORLD_SIZE", std::to_string(settings.contract.topology.local_size)}});
    add_default(variables, options, shared, kThreads, std::to_string(settings.cpus));
    return variables;
}

Environment rank_variables(const EnvironmentOptions& options,
                           const Environment& shared,
                           RankSettings settings) {
    // An --env that names GPUs is the mask of which the rank's GPUs are a part.
    Environment variables = std::move(settings.gpus);
    add(variables, options, coll::encode_for_rank(settings.topology));
    add(variables, options,
        {{"RANK", std::to_string(settings.topology.rank)},
         {"LOCAL_RANK", std::to_string(settings.topology.local_rank)}});
    if (!settings.terminal.empty()) {  // which else stays here
        add(variables, options, {{"TERM", std::move(settings.terminal)}});
    }
    if (settings.cpus) {
        add_default(variables, options, shared, kThreads, std::to_string(*settings.cpus));
    }
    return variables;
}

Status check_env_set(const Environment& env_set) {
    for (const auto& [name, value] : env_set) {
        if (is_contract(name)) {
            const auto flag = std::string("--env ").append(name).append("=").append(value);
            return Error{Errc::invalid_argument,
                         flag + ": horovodrun sets this for each rank; leave it out"};
        }
    }
    return ok();
}

}  // namespace hvd::launch
