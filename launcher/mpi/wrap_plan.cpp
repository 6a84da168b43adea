// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/wrap_plan.hpp"

#include "collectives/rendezvous/mpi_job.hpp"

#include <algorithm>
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

}  // namespace

Result<LaunchPlan> wrap_plan(LaunchPlan plan, const WrapRequest& request) {
    plan.mode = "mpi";
    plan.job.ranks_env.insert_or_assign(std::string(coll::kEnvMpiJob), encode(describe_job(plan)));

    LineRequest line{.kind = request.kind,
                     .program = request.program,
                     .hosts = {},
                     .variables = variables_of(plan),
                     .ssh_port = request.ssh_port,
                     .ssh_identity = request.ssh_identity,
                     .interfaces = request.interfaces,
                     .binding_args = request.binding_args,
                     .mpi_args = request.mpi_args,
                     .is_tcp = request.is_tcp,
                     .command = {request.shim, "exec", "--"}};
    line.input = input_of(plan, line.input_rank);
    std::string directory;
    for (const auto& host : plan.hosts) {
        if (host.ranks.empty()) {
            continue;
        }
        line.hosts.push_back({.host = host.host, .ranks = static_cast<int>(host.ranks.size())});
        line.is_oversubscribed =
            line.is_oversubscribed || static_cast<int>(host.ranks.size()) > host.slots;
        if (directory.empty()) {
            directory = host.ranks.front().cwd;
            const auto& command = host.ranks.front().argv;
            line.command.insert(line.command.end(), command.begin(), command.end());
        }
    }
    HVD_TRY(auto made, make_line(line));

    for (std::size_t index = 0; index < plan.hosts.size(); ++index) {
        auto& host = plan.hosts[index];
        host.shim_socket = coll::shim_socket(plan.job.id, index);
        host.stdin_all = false;
        host.stdin_rank = -1;
    }
    auto& first = plan.hosts.front();
    first.stdin_rank = line.input == Input::none ? -1 : kLauncherRank;
    first.launchers.push_back({.rank = kLauncherRank,
                               .gpus = {},
                               .cpus = {},
                               .env = std::move(made.env),
                               .cwd = directory,
                               .argv = std::move(made.argv)});
    return plan;
}

}  // namespace hvd::launch::mpi
