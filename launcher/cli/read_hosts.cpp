// SPDX-License-Identifier: Apache-2.0
//
// The hosts of a request: from flags, a file, or the batch job that we run in.
#include "collectives/base/text.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/values.hpp"
#include "launcher/hosts/allocation.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/hosts/hostfile.hpp"
#include "launcher/hosts/slurm_variables.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace hvd::launch {
namespace {

/// Whether srun can start the agents: not where the user said how hosts are reached, nor where
/// there is no srun.
bool is_for_srun(const Draft& draft, const Allocation& allocation) {
    const auto& request = draft.request;
    return allocation.scheduler == Scheduler::slurm && !allocation.id.empty() &&
           request.ssh.remote_shell.empty() && !request.hosts.listen &&
           !request.dry_run.facts_file && has_srun(draft.environment);
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

/// How many GPUs a component of the job has for each task; 0: it has none by task.
Result<int> gpus_by_task(const Draft& draft,
                         const std::string& variable,
                         const std::vector<Host>& hosts) {
    const auto gpus = find(draft.environment, variable);
    if (!gpus) {
        return 0;
    }
    const auto each = count_gpus(*gpus);
    const auto refuse = [&](const std::string& why) {
        return wrong(variable + "=" + *gpus + ": " + why +
                     "ask for GPUs with --gpus-per-node or --gres instead of --gpus-per-task");
    };
    if (!each) {
        return refuse("this is no number of GPUs; ");
    }
    if (!std::ranges::all_of(hosts, [](const Host& host) { return host.slots.has_value(); })) {
        return refuse("Slurm does not say how many tasks there are (SLURM_NTASKS); ");
    }
    if (draft.request.mpi.is_wanted &&
        !std::ranges::all_of(hosts, [](const Host& host) { return host.slots == 1; })) {
        return refuse(
            "mpirun starts one task on each node by srun, which gets the GPUs of one task; leave "
            "--mpi out, or ");
    }
    return *each;
}

/// A node has one agent, which belongs to one component.
Status check_components(const Allocation& allocation,
                        const std::vector<std::vector<Host>>& components) {
    std::set<std::string> names;
    for (const auto& component : components) {
        for (const auto& host : component) {
            if (!names.insert(host.name).second) {
                return wrong("node " + host.name + " is in two components of " + allocation.name +
                             "; ask Slurm for components with nodes of their own (--exclusive)");
            }
        }
    }
    return ok();
}

/// How srun has to be asked for agents. Where the job has GPUs by task, a rank gets those of one,
/// and srun has to be told how many tasks there are on each node.
Status take_slurm_job(Draft& draft, const Allocation& allocation) {
    HVD_TRY(const auto components, found(slurm_components(draft.environment)));
    HVD_TRY_STATUS(check_components(allocation, components));
    SlurmJob job{.id = allocation.id,
                 .is_heterogeneous = find(draft.environment, "SLURM_HET_SIZE").has_value(),
                 .components = {}};
    if (job.is_heterogeneous && draft.request.mpi.is_wanted) {
        return wrong("--mpi: mpirun knows the first component of a heterogeneous job only, and " +
                     allocation.name + " has " + std::to_string(components.size()) +
                     "; leave --mpi out");
    }
    std::set<int> gpus;
    for (std::size_t index = 0; index < components.size(); ++index) {
        const auto suffix =
            job.is_heterogeneous ? "_HET_GROUP_" + std::to_string(index) : std::string();
        HVD_TRY(const int each,
                found(gpus_by_task(draft, "SLURM_GPUS_PER_TASK" + suffix, components[index])));
        auto& component = job.components.emplace_back();
        component.has_gpus_by_task = each > 0;
        std::ranges::transform(components[index], std::back_inserter(component.nodes), &Host::name);
        if (each > 0) {
            gpus.insert(each);
        }
    }
    if (gpus.size() > 1 && draft.request.binding.may_lack_gpus) {
        return wrong("the components of " + allocation.name +
                     " have different numbers of GPUs for each task (" +
                     std::to_string(*gpus.begin()) + " and " + std::to_string(*gpus.rbegin()) +
                     "); say with --gpus-per-rank how many each rank gets");
    }
    if (gpus.size() == 1 && draft.request.binding.may_lack_gpus) {
        draft.request.binding.gpus_per_rank = *gpus.begin();
    }
    draft.request.hosts.slurm_job = std::move(job);
    return ok();
}

/// The hosts of the batch job that we run in, and the shell by which it reaches them.
Status take_allocation(Draft& draft, HostList& list) {
    HVD_TRY(auto allocation, found(find_allocation(draft.environment)));
    if (!allocation) {
        return ok();
    }
    HVD_TRY_STATUS(check_allocation(draft.request, list, *allocation));
    if (const auto end = find(draft.environment, "SLURM_JOB_END_TIME");
        end && allocation->scheduler == Scheduler::slurm) {
        draft.request.limits.allocation_end = parse_number<std::int64_t>(*end);
    }
    if (is_for_srun(draft, *allocation)) {
        HVD_TRY_STATUS(take_slurm_job(draft, *allocation));
    }
    draft.request.hosts.slots_are_cpus = allocation->scheduler == Scheduler::lsf;
    list.hosts = std::move(allocation->hosts);
    if (draft.request.report.is_verbose) {
        draft.request.report.notes.push_back("the hosts are those of " + allocation->name);
    }
    auto& shell = draft.request.ssh.remote_shell;
    if (shell.empty() && allocation->scheduler == Scheduler::lsf) {
        shell = {"blaunch"};
    }
    if (shell.empty() && allocation->scheduler == Scheduler::sge) {
        shell = {"qrsh", "-inherit"};
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
        const auto& input = draft.request.input;
        if (*draft.hostfile == "-" && (input.is_for_all || input.rank || input.terminal_rank)) {
            return wrong(std::string("-hostfile - and ") +
                         (input.terminal_rank ? "--pty" : "--stdin") +
                         " both read standard input; give the hosts in a file");
        }
        HVD_TRY(list.hosts, found(read_hostfile(*draft.hostfile)));
    }
    if (draft.request.mpi.is_jsrun) {
        HVD_TRY_STATUS(take_jsrun_allocation(draft, list.hosts));
    }
    if (list.hosts.empty() && !draft.request.hosts.join_count) {
        HVD_TRY_STATUS(take_allocation(draft, list));
    }
    if (auto excluded = exclude_hosts(list.hosts, list.excluded); !excluded) {
        return std::move(excluded).error().context("-H " + *draft.hosts);
    }
    draft.request.hosts.list = std::move(list.hosts);
    return ok();
}

}  // namespace hvd::launch
