// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/slurm_variables.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace hvd::launch {
namespace {

using Globs = std::span<const std::string_view>;

constexpr std::array<std::string_view, 12> kOfTask{
    "SLURM_PROCID",   "SLURM_LOCALID", "SLURM_NODEID",    "SLURM_GTIDS",
    "SLURM_TASK_PID", "SLURM_STEP*",   "SLURM_CPU_BIND*", "SLURM_SRUN_*",
    "SRUN_*",         "SLURM_PMI*",    "PMI_*",           "PMIX_*",
};

constexpr std::array<std::string_view, 8> kOfNode{
    "SLURMD_NODENAME", "SLURM_CPUS_ON_NODE",   "SLURM_GPUS_ON_NODE",       "SLURM_JOB_GPUS",
    "SLURM_MEM_BIND*", "SLURM_TOPOLOGY_ADDR*", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SHARDS_ON_NODE",
};

// The variables that srun needs: the job, and the addresses of Slurm.
constexpr std::array<std::string_view, 8> kForSrun{
    "SLURM_JOB_ID",       "SLURM_JOBID",           "SLURM_CONF", "SLURM_CONF_SERVER",
    "SLURM_CLUSTER_NAME", "SLURM_WORKING_CLUSTER", "SLURM_JWT",  "SLURM_SACK*",
};

bool matches_any(std::string_view name, Globs globs) noexcept {
    return std::ranges::any_of(globs,
                               [&](std::string_view glob) { return matches_glob(name, glob); });
}

bool is_slurms(std::string_view name) noexcept {
    return name.starts_with("SLURM_") || name.starts_with("SRUN_") || name.starts_with("PMI");
}

}  // namespace

bool is_of_slurm_task(std::string_view name) noexcept {
    return matches_any(name, kOfTask);
}

bool is_of_slurm_node(std::string_view name) noexcept {
    return matches_any(name, kOfNode);
}

bool has_srun(const Environment& environment) {
    return find_command("srun", find(environment, "PATH"), "").is_program();
}

std::vector<std::string> step_variables(const Environment& environment) {
    constexpr std::string_view kOfStepAlone = "SLURM_LAUNCH_NODE_IPADDR";
    std::vector<std::string> names;
    for (const auto& [name, value] : environment) {
        const bool is_to_keep =
            (is_of_slurm_node(name) && name != kOfStepAlone) || matches_any(name, kForSrun);
        if (is_slurms(name) && !is_to_keep) {
            names.push_back(name);
        }
    }
    return names;
}

Environment srun_environment(const Environment& environment) {
    Environment left = environment;
    std::erase_if(left, [](const auto& entry) {
        return is_slurms(entry.first) && !matches_any(entry.first, kForSrun);
    });
    return left;
}

}  // namespace hvd::launch
