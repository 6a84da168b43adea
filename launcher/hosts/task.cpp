// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/task.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/launcher_choice.hpp"
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

/// How a launcher calls what it tells; the first that is set counts.
struct LauncherVariables {
    std::string_view word;  // for HOROVOD_LAUNCHER
    std::string_view launcher;
    std::string_view sign;  // it has started us, if that is set
    std::string_view rank;
    std::string_view size;
    std::string_view local_rank;
    std::string_view local_size;
    std::string_view node{};   // number of this host
    std::string_view nodes{};  // how many there are
    int least_size = 1;
};

// The innermost first: each of them keeps the variables of those around it.
constexpr std::array kLauncherVariables{
    LauncherVariables{.word = "ompi",
                      .launcher = "mpirun",
                      .sign = "OMPI_COMM_WORLD_RANK",
                      .rank = "OMPI_COMM_WORLD_RANK",
                      .size = "OMPI_COMM_WORLD_SIZE",
                      .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                      .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    LauncherVariables{.word = "pmix",
                      .launcher = "PMIx",
                      .sign = "PMIX_RANK",
                      .rank = "PMIX_RANK",
                      .size = "",
                      .local_rank = "",
                      .local_size = ""},
    LauncherVariables{.word = "pmi",
                      .launcher = "mpiexec",
                      .sign = "PMI_RANK",
                      .rank = "PMI_RANK",
                      .size = "PMI_SIZE",
                      .local_rank = "MPI_LOCALRANKID",
                      .local_size = "MPI_LOCALNRANKS"},
    LauncherVariables{.word = "torchrun",
                      .launcher = "torchrun",
                      .sign = "TORCHELASTIC_RUN_ID",
                      .rank = "RANK",
                      .size = "WORLD_SIZE",
                      .local_rank = "LOCAL_RANK",
                      .local_size = "LOCAL_WORLD_SIZE",
                      .node = "GROUP_RANK",
                      .nodes = "GROUP_WORLD_SIZE"},
    LauncherVariables{.word = "flux",
                      .launcher = "flux run",
                      .sign = "FLUX_TASK_RANK",
                      .rank = "FLUX_TASK_RANK",
                      .size = "FLUX_JOB_SIZE",
                      .local_rank = "FLUX_TASK_LOCAL_ID",
                      .local_size = "",
                      .least_size = 2},
    LauncherVariables{.word = "jsrun",
                      .launcher = "jsrun",
                      .sign = "JSM_NAMESPACE_RANK",
                      .rank = "JSM_NAMESPACE_RANK",
                      .size = "JSM_NAMESPACE_SIZE",
                      .local_rank = "JSM_NAMESPACE_LOCAL_RANK",
                      .local_size = "JSM_NAMESPACE_LOCAL_SIZE",
                      .least_size = 2},
    LauncherVariables{.word = "slurm",
                      .launcher = "srun",
                      .sign = "SLURM_STEP_ID",  // without a step the others mean an allocation
                      .rank = "SLURM_PROCID",
                      .size = "SLURM_STEP_NUM_TASKS",
                      .local_rank = "SLURM_LOCALID",
                      .local_size = "SLURM_STEP_TASKS_PER_NODE",
                      .node = "SLURM_NODEID",
                      .nodes = "SLURM_STEP_NUM_NODES",
                      .least_size = 2},
};

bool is_of_scheduler(const Environment& environment, const LauncherVariables& dialect) {
    return (dialect.word == "pmi" && coll::has_pmi_of_scheduler(environment)) ||
           (dialect.word == "pmix" && coll::has_pmix_of_scheduler(environment));
}

Result<int> read(const Environment& environment, std::string_view name, int least) {
    const auto text = find(environment, name);
    const auto number = text ? parse_number<int>(*text) : std::nullopt;
    if (!number || *number < least) {
        return Error{Errc::invalid_argument, std::string(name) +
                                                 (text ? "='" + *text + "'" : " is missing, it") +
                                                 " must be a number from " + std::to_string(least)};
    }
    return *number;
}

int read_or(const Environment& environment, std::string_view name, int otherwise) {
    const auto text = find(environment, name);
    return text ? parse_number<int>(*text).value_or(otherwise) : otherwise;
}

/// Slurm tells the tasks of all nodes: "2(x3),1". Nothing where these are not the task's world.
std::optional<std::vector<int>> read_tasks_of_nodes(const Task& task,
                                                    const Environment& environment,
                                                    const LauncherVariables& dialect) {
    const auto text = find(environment, dialect.local_size).value_or("");
    auto counts = dialect.node.empty() ? std::nullopt : expand_counts(text);
    const bool is_world =
        counts && std::accumulate(counts->begin(), counts->end(), 0L) == task.size;
    return is_world ? std::move(counts) : std::nullopt;
}

/// The place of a task where hosts differ in their numbers of tasks, as number_ranks of the
/// planner counts it.
void add_uneven_place(Task& task,
                      const Environment& environment,
                      const LauncherVariables& dialect) {
    const auto counts = read_tasks_of_nodes(task, environment, dialect);
    const int node = read_or(environment, dialect.node, -1);
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
int read_local_size(const Environment& environment, const LauncherVariables& dialect) {
    const auto text = find(environment, dialect.local_size).value_or("");
    const bool is_one = text.find(',') == std::string::npos;
    const auto number = std::string_view(text).substr(0, text.find("(x"));
    return is_one ? parse_number<int>(number).value_or(0) : 0;
}

void add_cross(Task& task, const Environment& environment, const LauncherVariables& dialect) {
    const bool is_one_host = task.local_size == task.size;
    const int node = is_one_host ? 0 : read_or(environment, dialect.node, -1);
    const int nodes = is_one_host ? 1 : read_or(environment, dialect.nodes, 0);
    if (node >= 0 && node < nodes && task.local_size > 0 &&
        static_cast<long>(nodes) * task.local_size == task.size) {
        task.cross_rank = node;
        task.cross_size = nodes;
    }
}

}  // namespace

Result<std::optional<Task>> find_task(const Environment& environment) {
    HVD_TRY(const auto named, coll::chosen_launcher(environment));
    for (const auto& dialect : kLauncherVariables) {
        if (!find(environment, dialect.sign) ||
            (named.empty() ? is_of_scheduler(environment, dialect) : named != dialect.word)) {
            continue;
        }
        Task task{.launcher = dialect.launcher, .size = 0};
        HVD_TRY(task.rank, read(environment, dialect.rank, 0));
        if (dialect.size.empty()) {
            return std::optional(task);
        }
        HVD_TRY(task.size, read(environment, dialect.size, 1));
        if (task.size < dialect.least_size) {
            return std::optional<Task>();
        }
        if (task.rank >= task.size) {
            return Error{Errc::invalid_argument, std::string(dialect.rank) + "=" +
                                                     std::to_string(task.rank) + " is not below " +
                                                     std::string(dialect.size) + "=" +
                                                     std::to_string(task.size)};
        }
        task.local_rank = read_or(environment, dialect.local_rank, -1);
        task.local_size = read_local_size(environment, dialect);
        add_cross(task, environment, dialect);
        if (task.local_size == 0) {
            add_uneven_place(task, environment, dialect);
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
