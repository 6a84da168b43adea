// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examine.hpp"

#include "collectives/base/env.hpp"
#include "launcher/doctor/examination.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/net/signals.hpp"
#include "launcher/output/say.hpp"
#include "launcher/plan/launch_context.hpp"
#include "launcher/remote/gather/gather_hosts.hpp"
#include "launcher/remote/host_starters.hpp"
#include "launcher/remote/slurm/slurm_hosts.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

int fail(int exit_code, const Error& error) {
    say_on_stderr(error.message);
    return exit_code;
}

/// As the ranks would find it.
std::string variable(const LaunchRequest& request, std::string_view name) {
    for (const auto& environment : {request.environment.set, request.environment.tunables}) {
        if (auto value = find(environment, name)) {
            return *std::move(value);
        }
    }
    return read_env(std::string(name).c_str()).value_or("");
}

Result<Planned> plan_for(const LaunchRequest& request, std::span<const PlanHost> reached) {
    HVD_TRY(const auto context, make_launch_context());
    return make_plan(request, context, reached);
}

/// Of the job as asked for; where that cannot be planned, of ranks in all slots.
LaunchPlan choose_plan(LaunchRequest request,
                       std::span<const PlanHost> reached,
                       bool is_all,
                       Diagnosis& into) {
    if (is_all) {
        auto planned = plan_for(request, reached);
        if (planned) {
            into.plan_warnings = std::move(planned->warnings);
            return std::move(planned->plan);
        }
        into.plan_problem = planned.error().message;
    }
    request.processes.reset();
    request.binding.may_oversubscribe = true;
    request.binding.gpus = GpuBind::none;
    if (auto planned = plan_for(request, reached)) {
        return std::move(planned->plan);
    }
    LaunchPlan nothing;
    nothing.hosts.resize(reached.size());
    return nothing;
}

void ask_all(Examination& examination,
             const LaunchRequest& request,
             std::vector<Host> hosts,
             const std::vector<std::string>& starters) {
    auto& diagnosis = examination.diagnosis();
    std::vector<std::size_t> machines;
    if (hosts.size() > 1) {
        machines = examination.find_machines();
        if (const auto merged = merge_machines(hosts, machines); !merged) {
            diagnosis.plan_problem = merged.error().message;
        }
    }
    compare_gpu_drivers(diagnosis.hosts);
    const auto asked = examination.reached();
    if (asked.empty() || examination.stop_signal() != 0) {
        return;
    }
    std::vector<PlanHost> reached;  // what a plan needs of the hosts that can be asked
    std::vector<std::size_t> linked;
    for (const auto host : asked) {
        reached.push_back({.host = hosts[host],
                           .starter = starters[host],
                           .facts = *diagnosis.hosts[host].facts});
        if (machines.empty() || machines[host] == host) {
            linked.push_back(host);
        }
    }
    const bool is_all = asked.size() == hosts.size() && !diagnosis.plan_problem;
    examination.check(choose_plan(request, reached, is_all, diagnosis), asked);
    compare_nccl(diagnosis.hosts);
    const auto still = examination.reached();
    std::vector<std::size_t> ends;
    std::ranges::set_intersection(linked, still, std::back_inserter(ends));
    if (ends.size() > 1 && examination.stop_signal() == 0) {
        examination.measure(ends, {.interfaces = variable(request, kNetworkInterfaces),
                                   .ports = variable(request, kPortRange)});
    }
}

/// In an allocation of Slurm srun starts the agents, as it does for a job.
Result<Gathered> gather(IoThread& io,
                        const BlockedSignals& signals,
                        const LaunchRequest& job,
                        const std::vector<PlacedHost>& placed,
                        int& stop_signal) {
    if (job.hosts.slurm_job) {
        return gather_slurm_nodes(io, signals, job, io.in(job.limits.start_timeout), stop_signal,
                                  {.missing = Missing::stay_out});
    }
    return Gathered{.placed = placed, .starter = nullptr};
}

}  // namespace

int examine(const Examine& request) {
    const auto& job = request.job;
    const auto placed = choose_hosts(job);
    if (!placed) {
        return fail(kExitUsage, placed.error());
    }
    const BlockedSignals blocked;
    IoThread io;
    const auto began_at = io.now();
    int stop_signal = 0;
    auto gathered = gather(io, blocked, job, *placed, stop_signal);
    if (!gathered) {
        return fail(stop_signal != 0 ? exit_code_of_signal(stop_signal) : kExitLauncherFailure,
                    gathered.error());
    }
    auto starters =
        make_host_starters(io, job.ssh, starter_context(blocked, job.limits), *gathered);
    if (!starters) {
        return fail(kExitLauncherFailure, starters.error());
    }
    auto hosts = hosts_of(gathered->placed);
    Examination examination(io, blocked, std::string(wire::build_id()), began_at);
    examination.link(**starters, hosts, job.limits.start_timeout);
    ask_all(examination, job, std::move(hosts), (*starters)->names());
    examination.dismiss();
    if (examination.stop_signal() != 0) {
        return exit_code_of_signal(examination.stop_signal());
    }
    const auto& diagnosis = examination.diagnosis();
    const int printed = print_page(request.json ? print_json(diagnosis) : print_text(diagnosis));
    return printed != 0 || diagnosis.is_well() ? printed : kExitUnwell;
}

}  // namespace hvd::launch
