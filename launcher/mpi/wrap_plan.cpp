// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/wrap_plan.hpp"

#include "collectives/launch_contract/mpi_job.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace hvd::launch::mpi {
namespace {

/// An mpirun on several hosts carries nothing that is not named.
std::vector<std::string> variables_of(const LaunchPlan& plan) {
    std::set<std::string> names;
    for (const auto& [name, value] : plan.job.ranks_env) {
        names.insert(name);
    }
    if (plan.hosts.size() > 1) {
        for (const auto& [name, value] : plan.job.env) {
            names.insert(name);
        }
    }
    return {names.begin(), names.end()};
}

Input input_of(const LaunchPlan& plan, int& rank) {
    for (const auto& host : plan.hosts) {
        if (host.stdin_all) {
            return Input::all;
        }
        if (host.stdin_rank >= 0) {
            rank = host.stdin_rank;
            return Input::one;
        }
    }
    return Input::none;
}

coll::MpiJob describe_job(const LaunchPlan& plan) {
    coll::MpiJob job{.job_id = plan.job.id, .hosts = {}};
    for (const auto& host : plan.hosts) {
        job.hosts.push_back({.host = host.host, .ranks = static_cast<int>(host.ranks.size())});
    }
    return job;
}

/// The resources of the host at `index`, for jsrun.
Result<ResourceHost> describe_resources(const HostPlan& host,
                                        const HostFacts& facts,
                                        const LaunchRequest& request) {
    const auto& allocation = request.mpi.allocation;
    const auto found = std::ranges::find(allocation, host.host, &Host::name);
    if (found == allocation.end()) {
        return Error{Errc::invalid_argument,
                     "host " + host.host +
                         " is not one of the allocation's, and jsrun reaches no other; leave it "
                         "out of -H"};
    }
    ResourceHost resources{.number = static_cast<int>(found - allocation.begin()) + 1,
                           .slots = found->slots.value_or(1),
                           .cpus = facts.cpus,
                           .gpus = {},
                           .rank_cpus = {}};
    std::set<int> gpus;
    for (const auto& rank : host.ranks) {
        resources.rank_cpus.push_back(rank.cpus);
        for (const auto& gpu : rank.gpus) {
            gpus.insert(gpu.index);
        }
    }
    if (request.binding.gpus == GpuBind::none) {  // jsrun gives no GPU that is not asked for
        for (const auto& gpu : facts.gpus) {
            gpus.insert(gpu.index);
        }
    }
    resources.gpus.assign(gpus.begin(), gpus.end());
    return resources;
}

/// mpirun runs on the first host; all others have one port, see check_mpi.
SshOptions ssh_of_mpirun(const LaunchRequest& request) {
    auto ssh = request.ssh;
    const auto& hosts = request.hosts.list;
    if (hosts.size() > 1 && hosts[1].port) {
        ssh.port = hosts[1].port;
    }
    return ssh;
}

/// The host on which the program is started: all that jsrun needs is on this machine.
HostPlan& host_of_program(LaunchPlan& plan, Kind kind) {
    const auto here = std::ranges::find(plan.hosts, kLocalStarter, &HostPlan::starter);
    return kind == Kind::jsrun && here != plan.hosts.end() ? *here : plan.hosts.front();
}

}  // namespace

Result<LaunchPlan> wrap_plan(LaunchPlan plan,
                             const LaunchRequest& request,
                             std::span<const PlanHost> hosts,
                             const Installation& found) {
    plan.mode = found.kind == Kind::jsrun ? "jsrun" : "mpi";
    plan.job.ranks_env.insert_or_assign(std::string(coll::kEnvMpiJob), encode(describe_job(plan)));

    Job line{.kind = found.kind,
             .options = request.mpi,
             .ssh = ssh_of_mpirun(request),
             .variables = variables_of(plan),
             .resource_file = found.resource_folder + "/horovodrun-" + plan.job.id + ".erf",
             .command = {found.shim, "exec", "--"}};
    line.input = input_of(plan, line.input_rank);
    std::string directory;
    for (std::size_t index = 0; index < plan.hosts.size(); ++index) {
        const auto& host = plan.hosts[index];
        if (host.ranks.empty()) {
            continue;
        }
        if (found.kind == Kind::jsrun) {
            HVD_TRY(auto resources, describe_resources(host, hosts[index].facts, request));
            line.resources.push_back(std::move(resources));
        }
        line.hosts.push_back({.host = host.host, .ranks = static_cast<int>(host.ranks.size())});
        line.is_oversubscribed =
            line.is_oversubscribed || static_cast<int>(host.ranks.size()) > host.slots;
        if (directory.empty()) {
            directory = cwd_of(plan.job, host.ranks.front());
            const auto& command = argv_of(plan.job, host.ranks.front());
            line.command.insert(line.command.end(), command.begin(), command.end());
        }
    }
    HVD_TRY(auto made, make_line(line));
    if (!made.resource_text.empty()) {
        plan.launcher_file = {.path = line.resource_file, .text = std::move(made.resource_text)};
    }

    for (std::size_t index = 0; index < plan.hosts.size(); ++index) {
        auto& host = plan.hosts[index];
        host.shim_socket = coll::shim_socket(plan.job.id, index);
        host.stdin_all = false;
        host.stdin_rank = -1;
    }
    auto& host = host_of_program(plan, found.kind);
    host.stdin_rank = line.input == Input::none ? -1 : kLauncherRank;
    host.launchers.push_back({.rank = kLauncherRank,
                              .gpus = {},
                              .cpus = {},
                              .env = std::move(made.env),
                              .cwd = directory,
                              .argv = std::move(made.argv)});
    return plan;
}

}  // namespace hvd::launch::mpi
