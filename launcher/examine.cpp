// SPDX-License-Identifier: Apache-2.0
#include "launcher/examine.hpp"

#include "collectives/base/env.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/doctor/examination.hpp"
#include "launcher/host_starters.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/launch.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/plan/planner.hpp"
#include "launcher/plan_request.hpp"
#include "launcher/say.hpp"
#include "launcher/slurm_hosts.hpp"
#include "launcher/supervise/signals.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <iterator>
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
    for (const auto& environment : {request.env_set, request.tunables}) {
        if (auto value = find(environment, name)) {
            return *std::move(value);
        }
    }
    return read_env(std::string(name).c_str()).value_or("");
}

/// The hosts that can be asked, with what a plan needs of them.
struct Reached {
    std::vector<Host> hosts;
    std::vector<std::string> starters;
    std::vector<HostFacts> facts;
};

Result<Planned> plan_for(const LaunchRequest& request, const Reached& reached) {
    HVD_TRY(auto wishes, make_plan_request(request));
    wishes.hosts = reached.hosts;
    wishes.starters = reached.starters;
    return make_plan(wishes, reached.facts);
}

/// Of the job as asked for; where that cannot be planned, of ranks in all slots.
LaunchPlan choose_plan(LaunchRequest request,
                       const Reached& reached,
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
    request.may_oversubscribe = true;
    if (auto planned = plan_for(request, reached)) {
        return std::move(planned->plan);
    }
    LaunchPlan nothing;
    nothing.hosts.resize(reached.hosts.size());
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
    const auto asked = examination.reached();
    if (asked.empty() || examination.stop_signal() != 0) {
        return;
    }
    Reached reached;
    std::vector<std::size_t> linked;
    for (const auto host : asked) {
        reached.hosts.push_back(hosts[host]);
        reached.starters.push_back(starters[host]);
        reached.facts.push_back(*diagnosis.hosts[host].facts);
        if (machines.empty() || machines[host] == host) {
            linked.push_back(host);
        }
    }
    const bool is_all = asked.size() == hosts.size() && !diagnosis.plan_problem;
    examination.check(choose_plan(request, reached, is_all, diagnosis), asked);
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
    if (job.slurm_job) {
        return gather_slurm_nodes(io, signals, job, stop_signal, {.missing = Missing::stay_out});
    }
    return Gathered{.placed = placed, .starter = nullptr};
}

}  // namespace

int examine(const Examine& request, EarlyAgentPtr early_agent) {
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
        constexpr int kSignalBase = 128;
        return fail(stop_signal != 0 ? kSignalBase + stop_signal : kExitLauncherFailure,
                    gathered.error());
    }
    auto starters = make_host_starters(io, job.remote, gathered->placed,
                                       starter_context(blocked.original_mask(), job.start_timeout),
                                       std::move(early_agent), std::move(gathered->starter));
    if (!starters) {
        return fail(kExitLauncherFailure, starters.error());
    }
    auto hosts = hosts_of(gathered->placed);
    Examination examination(io, blocked, std::string(wire::build_id()), began_at);
    examination.link(**starters, hosts, job.start_timeout);
    ask_all(examination, job, std::move(hosts), (*starters)->names());
    examination.dismiss();
    if (examination.stop_signal() != 0) {
        constexpr int kSignalBase = 128;
        return kSignalBase + examination.stop_signal();
    }
    const auto& diagnosis = examination.diagnosis();
    const int printed = print_page(request.json ? print_json(diagnosis) : print_text(diagnosis));
    return printed != 0 || diagnosis.is_well() ? printed : kExitUnwell;
}

}  // namespace hvd::launch
