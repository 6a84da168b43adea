// SPDX-License-Identifier: Apache-2.0
//
// Request and facts → plan: a pure function. --dry-run prints what it returns; the agents run it.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/plan/process_spec.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

enum class GpuVisibility { index, env, none };

/// What of the user's wishes the planner needs.
struct PlanRequest {
    std::optional<int> processes;
    std::vector<Host> hosts{};  // one for each entry of the facts; no slots: we count them
    std::vector<std::string> command;
    std::string cwd;
    std::string job_id;                   // 32 hexadecimal digits
    std::vector<std::string> starters{};  // how the agent of each host was started: "local", "ssh"

    GpuVisibility gpu_visibility = GpuVisibility::index;
    int gpus_per_rank = 1;
    bool may_lack_gpus = false;  // ranks on hosts without GPUs use CPUs, whatever their number
    bool share_gpus = false;
    bool slots_are_cpus = false;  // a host with GPUs has no more than these make
    bool pin_cpus = true;
    bool may_oversubscribe = true;

    Environment caller_env;  // horovodrun's own environment
    Environment env_set;
    std::vector<std::string> env_pass;
    bool env_clean = false;
    Environment tunables;

    int stdin_rank = -1;
    bool stdin_all = false;
    std::chrono::milliseconds grace{10'000};
    std::chrono::milliseconds lease{30'000};
};

struct Planned {
    LaunchPlan plan;
    std::vector<std::string> warnings;  // it works, but worse than asked
};

/// The plan has a HostPlan for each host of the request, in its order; one that gets no rank has
/// none in it. Errors: invalid_argument with both numbers, or the value and the remedy, when it
/// cannot be done as asked. Never plans fewer ranks than were asked for.
[[nodiscard]] Result<Planned> make_plan(const PlanRequest& request,
                                        std::span<const HostFacts> facts);

}  // namespace hvd::launch
