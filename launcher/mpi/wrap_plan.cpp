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

/// What jsrun is told of the host at `index`.
Result<ResourceHost> describe_resources(const LaunchPlan& plan,
                                        std::size_t index,
                                        const WrapRequest& request) {
    const auto& host = plan.hosts[index];
    const auto found = std::ranges::find(request.allocation, host.host, &Host::name);
    if (found == request.allocation.end()) {
        return Error{Errc::invalid_argument,
                     "host " + host.host +
                         " is not one of the allocation's, and jsrun reaches no other; leave it "
                         "out of -H"};
    }
    ResourceHost resources{.number = static_cast<int>(found - request.allocation.begin()) + 1,
                           .slots = found->slots.value_or(1),
                           .cpus = request.host_cpus[index],
                           .gpus = {},
                           .rank_cpus = {}};
    std::set<int> gpus;
    for (const auto& rank : host.ranks) {
        resources.rank_cpus.push_back(rank.cpus);
        for (const auto& gpu : rank.gpus) {
            gpus.insert(gpu.index);
        }
    }
    if (!request.host_gpus.empty()) {
        gpus.insert(request.host_gpus[index].begin(), request.host_gpus[index].end());
    }
    resources.gpus.assign(gpus.begin(), gpus.end());
    return resources;
}

/// The host on which the program is started: all that jsrun needs is on this machine.
HostPlan& host_of_program(LaunchPlan& plan, Kind kind) {
    const auto here = std::ranges::find(plan.hosts, kLocalStarter, &HostPlan::starter);
    return kind == Kind::jsrun && here != plan.hosts.end() ? *here : plan.hosts.front();
}

}  // namespace

Result<LaunchPlan> wrap_plan(LaunchPlan plan, const WrapRequest& request) {
    plan.mode = request.kind == Kind::jsrun ? "jsrun" : "mpi";
    plan.job.ranks_env.insert_or_assign(std::string(coll::kEnvMpiJob), encode(describe_job(plan)));

    LineRequest line{
        .kind = request.kind,
        .program = request.program,
        .hosts = {},
        .variables = variables_of(plan),
        .ssh_port = request.ssh_port,
        .ssh_identity = request.ssh_identity,
        .interfaces = request.interfaces,
        .binding_args = request.binding_args,
        .mpi_args = request.mpi_args,
        .is_tcp = request.is_tcp,
        .allocated_hosts = static_cast<int>(request.allocation.size()),
        .resource_file = request.resource_folder + "/horovodrun-" + plan.job.id + ".erf",
        .command = {request.shim, "exec", "--"}};
    line.input = input_of(plan, line.input_rank);
    std::string directory;
    for (std::size_t index = 0; index < plan.hosts.size(); ++index) {
        const auto& host = plan.hosts[index];
        if (host.ranks.empty()) {
            continue;
        }
        if (request.kind == Kind::jsrun) {
            HVD_TRY(auto resources, describe_resources(plan, index, request));
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
    auto& host = host_of_program(plan, request.kind);
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
