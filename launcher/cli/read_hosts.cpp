// SPDX-License-Identifier: Apache-2.0
//
// The hosts of a request: from flags, a file, or the batch job that we run in.
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/hosts/allocation.hpp"
#include "launcher/hosts/hostfile.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {
namespace {

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

/// Whether srun can start the agents: not for the groups of a heterogeneous job, which it would
/// need an option each for; and not where the user said how hosts are reached.
bool is_for_srun(const Draft& draft, const Allocation& allocation) {
    const auto& request = draft.request;
    return allocation.scheduler == Scheduler::slurm && !allocation.id.empty() &&
           !find(draft.environment, "SLURM_HET_SIZE") && request.remote.shell.empty() &&
           !request.listen && !request.facts_file;
}

/// Refuses more ranks than the batch system gave tasks, before anything is started.
Status check_allocation(const LaunchRequest& request,
                        const HostList& list,
                        const Allocation& allocation) {
    int slots = 0;
    std::string written;
    for (const auto& host : allocation.hosts) {
        if (!host.slots) {
            return ok();  // nobody asked for a number of tasks
        }
        if (std::ranges::find(list.excluded, host.name) == list.excluded.end()) {
            slots += *host.slots;
            written += (written.empty() ? "" : ",") + host.name + ":" + std::to_string(*host.slots);
        }
    }
    if (request.processes.value_or(0) <= slots || slots == 0) {
        return ok();
    }
    constexpr std::size_t kMostShown = 200;
    if (written.size() > kMostShown) {
        written = written.substr(0, written.rfind(',', kMostShown)) + ",...";
    }
    return wrong("-np " + std::to_string(*request.processes) + " is more than the " +
                 std::to_string(slots) + " tasks of " + allocation.name + " (" + written +
                 "); ask the batch system for more, or leave -np out");
}

/// How many GPUs "2" or "a100:2,v100:1" are.
std::optional<int> count_gpus(std::string_view text) {
    int sum = 0;
    for (const auto part : split(text, ',')) {
        const auto count = parse_number<int>(part.substr(part.rfind(':') + 1));
        if (!count || *count < 1) {
            return std::nullopt;
        }
        sum += *count;
    }
    return sum;
}

/// Where the job has GPUs by task, a rank gets those of one, and srun has to be told how many tasks
/// there are on each node.
Status take_gpus(Draft& draft, const Allocation& allocation) {
    const auto gpus = find(draft.environment, "SLURM_GPUS_PER_TASK");
    if (!gpus) {
        return ok();
    }
    const auto each = count_gpus(*gpus);
    const bool has_tasks = std::ranges::all_of(
        allocation.hosts, [](const Host& host) { return host.slots.has_value(); });
    if (!each || !has_tasks) {
        return wrong("SLURM_GPUS_PER_TASK=" + *gpus + " in " + allocation.name + ": " +
                     (each ? "Slurm does not say how many tasks it has (SLURM_NTASKS)"
                           : "this is no number of GPUs") +
                     "; ask for GPUs with --gpus-per-node or --gres instead of --gpus-per-task");
    }
    const bool has_one_each =
        std::ranges::all_of(allocation.hosts, [](const Host& host) { return host.slots == 1; });
    if (draft.request.mpi.is_wanted && !has_one_each) {
        return wrong("SLURM_GPUS_PER_TASK=" + *gpus +
                     ": mpirun starts one task on each node by srun, to which " + allocation.name +
                     " gives the GPUs of one task; leave --mpi out, or ask for GPUs with "
                     "--gpus-per-node or --gres instead of --gpus-per-task");
    }
    draft.request.slurm_job->has_gpus_by_task = true;
    if (!draft.gpus_per_rank_given) {
        draft.request.gpus_per_rank = *each;
    }
    return ok();
}

/// The hosts of the batch job that we run in, and the shell by which it reaches them.
Status take_allocation(Draft& draft, HostList& list) {
    HVD_TRY(auto allocation, find_allocation(draft.environment));
    if (!allocation) {
        return ok();
    }
    HVD_TRY_STATUS(check_allocation(draft.request, list, *allocation));
    if (const auto end = find(draft.environment, "SLURM_JOB_END_TIME");
        end && allocation->scheduler == Scheduler::slurm) {
        draft.request.end_time = parse_number<std::int64_t>(*end);
    }
    if (is_for_srun(draft, *allocation)) {
        draft.request.slurm_job = SlurmJob{.id = allocation->id};
        HVD_TRY_STATUS(take_gpus(draft, *allocation));
    }
    list.hosts = std::move(allocation->hosts);
    if (draft.request.verbose) {
        draft.request.notes.push_back("the hosts are those of " + allocation->name);
    }
    auto& shell = draft.request.remote.shell;
    if (shell.empty() && allocation->scheduler == Scheduler::lsf) {
        shell = "blaunch";
    }
    if (shell.empty() && allocation->scheduler == Scheduler::sge) {
        shell = "qrsh -inherit";
    }
    return ok();
}

}  // namespace

Status read_hosts(Draft& draft) {
    HostList list;
    if (draft.hosts) {
        auto parsed = parse_host_list(*draft.hosts);
        if (!parsed) {
            return std::move(parsed).error().context("-H " + *draft.hosts);
        }
        list = std::move(*parsed);
    }
    if (draft.hostfile) {
        if (!list.hosts.empty()) {
            return wrong(
                "-H and -hostfile: write one of them, not both; beside a host file -H may only "
                "leave "
                "hosts out, such as -H ^node3");
        }
        if (*draft.hostfile == "-" && (draft.request.stdin_all || draft.request.stdin_rank)) {
            return wrong(
                "-hostfile - and --stdin both read standard input; give the hosts in a file");
        }
        HVD_TRY(list.hosts, read_hostfile(*draft.hostfile));
    }
    if (list.hosts.empty() && !draft.request.join_hosts) {
        HVD_TRY_STATUS(take_allocation(draft, list));
    }
    if (auto excluded = exclude_hosts(list.hosts, list.excluded); !excluded) {
        return std::move(excluded).error().context("-H " + *draft.hosts);
    }
    draft.request.hosts = std::move(list.hosts);
    return ok();
}

}  // namespace hvd::launch
