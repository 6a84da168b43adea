// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan_request.hpp"

#include "collectives/base/random_id.hpp"
#include "launcher/plan/facts_file.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

GpuVisibility visibility(GpuBind bind) {
    switch (bind) {
        case GpuBind::index: return GpuVisibility::index;
        case GpuBind::env: return GpuVisibility::env;
        case GpuBind::none: return GpuVisibility::none;
    }
    return GpuVisibility::index;
}

}  // namespace

Result<PlanRequest> make_plan_request(const LaunchRequest& request) {
    std::error_code failure;
    const auto directory = std::filesystem::current_path(failure);
    if (failure) {
        return system_error("the current directory", failure.value());
    }
    HVD_TRY(auto job_id, random_id());
    return PlanRequest{.processes = request.processes,
                       .command = request.command,
                       .cwd = directory.string(),
                       .job_id = std::move(job_id),
                       .gpu_visibility = visibility(request.gpu_bind),
                       .gpus_per_rank = request.gpus_per_rank,
                       .may_lack_gpus = request.may_lack_gpus,
                       .share_gpus = request.share_gpus,
                       .slots_are_cpus = request.slots_are_cpus,
                       .pin_cpus = request.bind_to == BindTo::share,
                       .may_oversubscribe = request.may_oversubscribe,
                       .caller_env = current_environment(),
                       .env_set = request.env_set,
                       .env_pass = request.env_pass,
                       .env_clean = request.env_clean,
                       .tunables = request.tunables,
                       .stdin_rank = request.stdin_rank.value_or(-1),
                       .stdin_all = request.stdin_all,
                       .grace = request.grace,
                       .lease = request.lease};
}

Result<Planned> plan_offline(const LaunchRequest& request) {
    HVD_TRY(const auto facts, read_facts_file(*request.facts_file));
    HVD_TRY(auto described, describe_hosts(request.hosts, facts));
    // Which of several is the machine of the launcher is not recorded.
    std::vector<std::string> starters(described.hosts.size(), "ssh");
    if (starters.size() == 1) {
        starters.front() = kLocalStarter;
    }
    HVD_TRY(auto wishes, make_plan_request(request));
    wishes.hosts = std::move(described.hosts);
    wishes.starters = std::move(starters);
    return make_plan(wishes, described.facts);
}

}  // namespace hvd::launch
