// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/environment.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace hvd::launch {
namespace {

/// The launcher's promise to the ranks; nobody else may set these.
constexpr std::array kContract{
    coll::kEnvRank,      coll::kEnvSize,      coll::kEnvLocalRank,
    coll::kEnvLocalSize, coll::kEnvCrossRank, coll::kEnvCrossSize,
    coll::kEnvHostname,  coll::kEnvJobId,     coll::kEnvAgentSocket,
};

/// Of this machine, this login, or of a task of an outer launcher. Globs.
constexpr std::array<std::string_view, 37> kStaysHere{
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
    "MAIL",
    "TMUX*",
    "STY",
    "LS_COLORS",
    "OMPI_*",
    "PMIX_*",
    "PMI_*",
    "PRTE_*",
    "HYDRA_*",
    "MPI_LOCAL*",
    "TORCHELASTIC_*",
    "FLUX_TASK_*",
    "JSM_*",
    "SLURM_PROCID",
    "SRUN_*",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_STEP*",
    "SLURM_CPU_BIND*",
};

bool is_contract(std::string_view name) noexcept {
    return std::ranges::find(kContract, name) != kContract.end();
}

/// So that scripts written for torch.distributed start too.
Environment torch_variables(const RankSettings& settings) {
    const auto& topology = settings.contract.topology;
    Environment variables{
        {"RANK", std::to_string(topology.rank)},
        {"WORLD_SIZE", std::to_string(topology.size)},
        {"LOCAL_RANK", std::to_string(topology.local_rank)},
        {"LOCAL_WORLD_SIZE", std::to_string(topology.local_size)},
        {"MASTER_ADDR", settings.master_address},
    };
    if (settings.master_port != 0) {
        variables.emplace("MASTER_PORT", std::to_string(settings.master_port));
    }
    return variables;
}

/// Good values that give way to the caller's own.
Environment defaults(const RankSettings& settings) {
    Environment variables{
        {"HOROVOD_CPU_OPERATIONS", "gloo"},
        {"OMP_NUM_THREADS", std::to_string(settings.cpus)},
        {"PYTHONUNBUFFERED", "1"},
    };
    if (settings.is_one_host) {
        variables.emplace("HOROVOD_GLOO_IFACE", "lo");
        variables.emplace("NCCL_SOCKET_IFNAME", "lo");
    }
    return variables;
}

}  // namespace

Environment shared_environment(const PlanRequest& request) {
    Environment shared = request.caller_env;
    std::erase_if(shared, [&](const auto& entry) {
        const auto matches = [&](const std::string& glob) {
            return matches_glob(entry.first, glob);
        };
        return is_contract(entry.first) ||
               (request.env_clean && std::ranges::none_of(request.env_pass, matches));
    });
    return shared;
}

Environment portable_environment(const PlanRequest& request, const Environment& shared) {
    Environment portable = shared;
    std::erase_if(portable, [&](const auto& entry) {
        const auto matches = [&](std::string_view glob) { return matches_glob(entry.first, glob); };
        return std::ranges::any_of(kStaysHere, matches) &&
               std::ranges::none_of(request.env_pass, matches);
    });
    return portable;
}

Environment rank_environment(const PlanRequest& request,
                             const Environment& shared,
                             const RankSettings& settings) {
    // `merge` keeps what is there, so the strongest comes first. An --env that names GPUs is the
    // mask of which the rank's GPUs are a part.
    Environment environment = settings.gpus;
    const auto add = [&](Environment weaker) { environment.merge(weaker); };
    add(request.env_set);
    add(request.tunables);
    add(coll::encode(settings.contract));
    add({{"HOROVOD_CONTROLLER", "gloo"}});
    add(torch_variables(settings));
    for (const auto& [name, value] : defaults(settings)) {
        if (!shared.contains(name)) {
            environment.emplace(name, value);
        }
    }
    return environment;
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
