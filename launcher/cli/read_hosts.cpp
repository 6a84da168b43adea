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
/// need an option each for; not where the user said how hosts are reached; and mpirun, which starts
/// its daemons by srun itself, is run by the agent of this machine.
bool is_for_srun(const Draft& draft, const Allocation& allocation) {
    const auto& request = draft.request;
    return allocation.scheduler == Scheduler::slurm && !allocation.id.empty() &&
           !find(draft.environment, "SLURM_HET_SIZE") && request.remote.shell.empty() &&
           !request.listen && !request.mpi.is_wanted && !request.facts_file && !draft.is_doctor;
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

/// Slurm gives a step with one task on each node one task's GPUs, and no option of srun makes it
/// more, where the job asked for them by task. Ranks would silently share one.
Status check_gpus(const Environment& environment, const Allocation& allocation) {
    const auto gpus = find(environment, "SLURM_GPUS_PER_TASK");
    const bool are_several_on_a_node = std::ranges::any_of(
        allocation.hosts, [](const Host& host) { return host.slots.value_or(2) > 1; });
    if (!gpus || !are_several_on_a_node) {
        return ok();
    }
    return wrong("SLURM_GPUS_PER_TASK=" + *gpus + ": with several tasks on a node of " +
                 allocation.name +
                 " Slurm would let all its ranks see the GPUs of one task only; ask for GPUs with "
                 "--gpus-per-node or --gres instead of --gpus-per-task");
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
        HVD_TRY_STATUS(check_gpus(draft.environment, *allocation));
        draft.request.slurm_job = allocation->id;
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
