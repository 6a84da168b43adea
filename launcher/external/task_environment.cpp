// SPDX-License-Identifier: Apache-2.0
#include "launcher/external/task_environment.hpp"

#include "collectives/launch_contract/launch_env.hpp"
#include "launcher/agent/probe/gpu_facts.hpp"
#include "launcher/agent/processes/spawner.hpp"
#include "launcher/plan/gpu_shares.hpp"

#include <array>
#include <csignal>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

struct Number {
    std::array<std::string_view, 2> names;  // ours, and that of torch.distributed
    int value = 0;
    bool is_known = true;
};

/// The tool's end is awaited by its signal.
std::vector<Gpu> find_gpus() {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    agent::Inheritance given;
    (void)::pthread_sigmask(SIG_BLOCK, &child, &given.signal_mask);
    auto found = agent::find_gpus(given, -1);
    (void)::pthread_sigmask(SIG_SETMASK, &given.signal_mask, nullptr);
    return std::move(found.gpus);
}

}  // namespace

void set_contract(Environment& environment, const Task& task, const std::string& host) {
    const bool has_local = task.local_rank >= 0;
    const bool has_cross = task.cross_rank >= 0;
    const std::array<Number, 6> numbers{{
        {{coll::kEnvRank, "RANK"}, task.rank},
        {{coll::kEnvSize, "WORLD_SIZE"}, task.size, task.size > 0},
        {{coll::kEnvLocalRank, "LOCAL_RANK"}, task.local_rank, has_local},
        {{coll::kEnvLocalSize, "LOCAL_WORLD_SIZE"}, task.local_size, task.local_size > 0},
        {{coll::kEnvCrossRank, ""}, task.cross_rank, has_cross},
        {{coll::kEnvCrossSize, ""}, task.cross_size, has_cross},
    }};
    environment.erase(std::string(coll::kEnvJobId));
    environment.erase(std::string(coll::kEnvAgentSocket));
    environment.erase(std::string(coll::kEnvLauncherVariables));
    for (const auto& number : numbers) {
        for (const auto name : number.names) {
            if (name.empty()) {
                continue;
            }
            if (number.is_known) {
                environment.insert_or_assign(std::string(name), std::to_string(number.value));
            } else if (name == number.names[0]) {
                environment.erase(std::string(name));
            }
        }
    }
    environment.insert_or_assign(std::string(coll::kEnvHostname), host);
    environment.insert_or_assign(std::string(coll::kEnvTaskOf), std::string(task.launcher));
}

Environment own_gpus(const BindingOptions& binding,
                     const Task& task,
                     const Environment& environment) {
    if (binding.gpus == GpuBind::none || task.local_rank < 0 ||
        task.local_rank >= task.local_size || !agent::may_have_gpus()) {
        return {};
    }
    for (const auto* name : {"SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK"}) {
        if (find(environment, name)) {
            return {};  // those that it sees are its own
        }
    }
    // Where there are not enough for all, the launcher has given this task its own, or the user
    // knows why: here is nobody who could have placed the tasks otherwise.
    auto shares =
        share_gpus(binding, "", apply_gpu_mask(find_gpus(), find(environment, kVisibleDevices)),
                   task.local_size, environment);
    return shares ? std::move((*shares)[static_cast<std::size_t>(task.local_rank)].env)
                  : Environment{};
}

}  // namespace hvd::launch
