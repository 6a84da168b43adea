// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/command_line.hpp"

#include "collectives/base/text.hpp"
#include "launcher/mpi/jsrun_line.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <utility>

namespace hvd::launch::mpi {
namespace {

/// From so many hosts on one program starts all of Open MPI's daemons: a tree of ssh needs every
/// host to reach others.
constexpr std::size_t kManyHosts = 64;

using Words = std::vector<std::string>;

void add(Words& line, std::initializer_list<std::string> words) {
    line.insert(line.end(), words);
}

void add(Words& line, const Words& words) {
    line.insert(line.end(), words.begin(), words.end());
}

int count_ranks(const Job& job) {
    return std::accumulate(job.hosts.begin(), job.hosts.end(), 0,
                           [](int sum, const HostRanks& host) { return sum + host.ranks; });
}

std::string list_hosts(const Job& job) {
    Words hosts;
    for (const auto& [host, ranks] : job.hosts) {
        hosts.push_back(std::string(host).append(":").append(std::to_string(ranks)));
    }
    return join(hosts, ",");
}

std::string ssh_arguments(const Job& job) {
    Words words;
    if (job.ssh.port) {
        words.push_back("-p " + std::to_string(*job.ssh.port));
    }
    if (job.ssh.identity) {
        words.push_back("-i " + job.ssh.identity->string());
    }
    return join(words, " ");
}

Error cannot(const Job& job, const std::string& what, const std::string& remedy) {
    return {Errc::invalid_argument,
            std::string(to_string(job.kind)) + " cannot " + what + "; " + remedy};
}

// ---- Open MPI and what was made from it ----

/// `--mca`, or PRRTE's own where the setting is about its daemons.
void add_setting(const Job& job, Words& line, std::string name, std::string value) {
    const bool is_prrte = job.kind == Kind::open_mpi_5 && !name.starts_with("btl_");
    add(line, {is_prrte ? "--prtemca" : "--mca", std::move(name), std::move(value)});
}

void add_binding(const Job& job, Words& line) {
    const bool is_prrte = job.kind == Kind::open_mpi_5;
    if (!job.options.binding_args.empty()) {
        add(line, job.options.binding_args);
    } else {
        const bool is_in_mapping = is_prrte && job.is_oversubscribed;
        add(line, {"--bind-to", "none", "--map-by", is_in_mapping ? "slot:OVERSUBSCRIBE" : "slot"});
    }
    if (job.is_oversubscribed && (!is_prrte || !job.options.binding_args.empty())) {
        add(line, {"--oversubscribe"});
    }
}

void add_connections(const Job& job, Words& line) {
    const std::string agent = job.kind == Kind::open_mpi_5 ? "plm_ssh_" : "plm_rsh_";
    if (job.hosts.size() >= kManyHosts) {
        add_setting(job, line, agent + "no_tree_spawn", "true");
        add_setting(job, line, agent + "num_concurrent", std::to_string(job.hosts.size()));
    }
    if (const auto arguments = ssh_arguments(job); !arguments.empty()) {
        add_setting(job, line, agent + "args", arguments);
    }
    if (!job.options.interfaces.empty()) {
        const auto interfaces = join(job.options.interfaces, ",");
        add_setting(job, line, "btl_tcp_if_include", interfaces);
        add_setting(job, line, "oob_tcp_if_include", interfaces);
    }
}

std::string input_of_open_mpi(const Job& job) {
    switch (job.input) {
        case Input::none: return "none";
        case Input::one: return std::to_string(job.input_rank);
        case Input::all: return "all";
    }
    return "none";
}

Line open_mpi_line(const Job& job) {
    Words line{job.options.program, "--allow-run-as-root"};
    if (job.kind == Kind::open_mpi_5) {
        add(line, {"--output", "tag"});
    } else {
        add(line, {"--tag-output"});
    }
    add(line, {"--stdin", input_of_open_mpi(job)});
    add(line, {"-np", std::to_string(count_ranks(job)), "-H", list_hosts(job)});
    add_binding(job, line);
    add_connections(job, line);
    if (job.options.is_tcp && job.kind == Kind::spectrum) {
        add(line, {"-tcp"});
    }
    for (const auto& name : job.variables) {
        add(line, {"-x", name});
    }
    add(line, job.options.args);
    add(line, job.command);
    return {.argv = std::move(line), .env = {}};
}

// ---- hydra ----

bool has_even_hosts(const Job& job) {
    return std::ranges::all_of(
        job.hosts, [&](const HostRanks& host) { return host.ranks == job.hosts.front().ranks; });
}

/// Intel's hydra reads no counts with its hosts.
Status add_hosts_of_intel(const Job& job, Words& line) {
    if (!has_even_hosts(job)) {
        return cannot(job, "start different numbers of ranks on hosts (" + list_hosts(job) + ")",
                      "give all hosts the same number of slots");
    }
    Words names;
    std::ranges::transform(job.hosts, std::back_inserter(names), &HostRanks::host);
    add(line, {"-ppn", std::to_string(job.hosts.front().ranks), "-hosts", join(names, ",")});
    return ok();
}

Result<Line> hydra_line(const Job& job) {
    if (job.input == Input::all || (job.input == Input::one && job.input_rank != 0)) {
        return cannot(job, "give standard input to another rank than 0",
                      "use --stdin 0, or leave --mpi out");
    }
    if (job.options.interfaces.size() > 1) {
        return cannot(job, "use several interfaces (" + join(job.options.interfaces, ",") + ")",
                      "name one in --network-interfaces");
    }
    Line result{.argv = {job.options.program, "-l", "-np", std::to_string(count_ranks(job))},
                .env = {}};
    auto& line = result.argv;
    if (job.kind == Kind::intel) {
        HVD_TRY_STATUS(add_hosts_of_intel(job, line));
    } else {
        add(line, {"-hosts", list_hosts(job)});
    }
    if (!job.options.binding_args.empty()) {
        add(line, job.options.binding_args);
    } else if (job.kind == Kind::intel) {
        result.env.emplace("I_MPI_PIN", "off");
    } else {
        add(line, {"-bind-to", "none"});
    }
    if (const auto arguments = ssh_arguments(job); !arguments.empty()) {
        if (job.kind == Kind::intel) {
            add(line, {"-bootstrap", "ssh", "-bootstrap-exec-args", arguments});
        } else {
            add(line, {"-launcher", "ssh"});
            result.env.emplace("HYDRA_LAUNCHER_EXTRA_ARGS", arguments);
        }
    }
    if (!job.options.interfaces.empty()) {
        add(line, {"-iface", job.options.interfaces.front()});
    }
    if (!job.variables.empty()) {
        add(line, {"-genvlist", join(job.variables, ",")});
    }
    add(line, job.options.args);
    add(line, job.command);
    return result;
}

}  // namespace

Result<Line> make_line(const Job& job) {
    if (job.kind == Kind::jsrun) {
        return jsrun_line(job);
    }
    return is_hydra(job.kind) ? hydra_line(job) : open_mpi_line(job);
}

}  // namespace hvd::launch::mpi
