// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/task.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/launch_contract/launcher_choice.hpp"
#include "collectives/launch_contract/launcher_variables.hpp"
#include "collectives/launch_contract/scheduler_pmi.hpp"
#include "launcher/hosts/host_ranges.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

using coll::LauncherVariables;

bool is_of_scheduler(const Environment& environment, const LauncherVariables& variables) {
    return (variables.word == "pmi" && coll::has_pmi_of_scheduler(environment)) ||
           (variables.word == "pmix" && coll::has_pmix_of_scheduler(environment));
}

int read_or(const Environment& environment, std::string_view name, int otherwise) {
    const auto text = find(environment, name);
    return text ? parse_number<int>(*text).value_or(otherwise) : otherwise;
}

/// Slurm tells the tasks of all nodes: "2(x3),1". Nothing where these are not the task's world.
std::optional<std::vector<int>> read_tasks_of_nodes(const Task& task,
                                                    const Environment& environment,
                                                    const LauncherVariables& variables) {
    const auto text = find(environment, variables.tasks_of_nodes).value_or("");
    auto counts = expand_counts(text);
    const bool is_world =
        counts && std::accumulate(counts->begin(), counts->end(), 0L) == task.size;
    return is_world ? std::move(counts) : std::nullopt;
}

/// The place of a task where hosts differ in their numbers of tasks, as number_ranks of the
/// planner counts it.
void add_uneven_place(Task& task,
                      const Environment& environment,
                      const LauncherVariables& variables) {
    const auto counts = read_tasks_of_nodes(task, environment, variables);
    const int node = read_or(environment, variables.node[0], -1);
    if (!counts || counts->size() < 2 || node < 0 || std::cmp_greater_equal(node, counts->size())) {
        return;
    }
    task.local_size = (*counts)[static_cast<std::size_t>(node)];
    if (task.local_rank < 0 || task.local_rank >= task.local_size) {
        return;
    }
    const auto has_twin = [&](int tasks) { return tasks > task.local_rank; };
    task.cross_rank =
        static_cast<int>(std::count_if(counts->begin(), counts->begin() + node, has_twin));
    task.cross_size = static_cast<int>(std::ranges::count_if(*counts, has_twin));
}

/// Slurm repeats what is the same on several nodes: "2(x4)". What differs is not told here.
int read_local_size(const Environment& environment, const LauncherVariables& variables) {
    const auto& name =
        variables.tasks_of_nodes.empty() ? variables.local_size[0] : variables.tasks_of_nodes;
    const auto text = find(environment, name).value_or("");
    const bool is_one = text.find(',') == std::string::npos;
    const auto number = std::string_view(text).substr(0, text.find("(x"));
    return is_one ? parse_number<int>(number).value_or(0) : 0;
}

void add_cross(Task& task, const Environment& environment, const LauncherVariables& variables) {
    const bool is_one_host = task.local_size == task.size;
    const int node = is_one_host ? 0 : read_or(environment, variables.node[0], -1);
    const int nodes = is_one_host ? 1 : read_or(environment, variables.nodes, 0);
    if (node >= 0 && node < nodes && task.local_size > 0 &&
        static_cast<long>(nodes) * task.local_size == task.size) {
        task.cross_rank = node;
        task.cross_size = nodes;
    }
}

/// A rank of horovodrun.
Result<Task> read_rank(const Environment& environment) {
    HVD_TRY(const auto contract, coll::decode_launch_contract(environment));
    const auto& topology = contract.topology;
    return Task{.launcher = kHorovodrun,
                .rank = topology.rank,
                .size = topology.size,
                .local_rank = topology.local_rank,
                .local_size = topology.local_size,
                .cross_rank = topology.cross_rank,
                .cross_size = topology.cross_size};
}

}  // namespace

Result<std::optional<Task>> find_task(const Environment& environment) {
    HVD_TRY(const auto named, coll::chosen_launcher(environment));
    if (named.empty() && find(environment, coll::kEnvAgentSocket)) {
        HVD_TRY(const auto task, read_rank(environment));
        return std::optional(task);
    }
    for (const auto& variables : coll::kLauncherVariables) {
        if (!find(environment, variables.signs[0]) ||
            (named.empty() ? is_of_scheduler(environment, variables) : named != variables.word)) {
            continue;
        }
        Task task{.launcher = variables.name, .size = 0};
        HVD_TRY(task.rank, coll::read_number(environment, variables.rank[0], 0));
        if (variables.size[0].empty()) {
            return std::optional(task);
        }
        HVD_TRY(task.size, coll::read_number(environment, variables.size[0], 1));
        if (task.size < variables.least_size) {
            return std::optional<Task>();
        }
        if (task.rank >= task.size) {
            return Error{Errc::invalid_argument, std::string(variables.rank[0]) + "=" +
                                                     std::to_string(task.rank) + " is not below " +
                                                     std::string(variables.size[0]) + "=" +
                                                     std::to_string(task.size)};
        }
        task.local_rank = read_or(environment, variables.local_rank[0], -1);
        task.local_size = read_local_size(environment, variables);
        add_cross(task, environment, variables);
        if (task.local_size == 0) {
            add_uneven_place(task, environment, variables);
        }
        return std::optional(task);
    }
    return std::optional<Task>();
}

bool is_mpirun(std::string_view program) {
    const auto name = program.substr(program.rfind('/') + 1);
    constexpr std::array<std::string_view, 8> kNames{
        "mpirun",       "mpiexec",       "mpirun.openmpi", "mpiexec.openmpi",
        "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra",  "orterun"};
    return std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace hvd::launch
