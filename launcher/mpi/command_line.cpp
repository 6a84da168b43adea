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

int count_ranks(const LineRequest& request) {
    return std::accumulate(request.hosts.begin(), request.hosts.end(), 0,
                           [](int sum, const HostRanks& host) { return sum + host.ranks; });
}

std::string list_hosts(const LineRequest& request) {
    Words hosts;
    for (const auto& [host, ranks] : request.hosts) {
        hosts.push_back(std::string(host).append(":").append(std::to_string(ranks)));
    }
    return join(hosts, ",");
}

std::string ssh_arguments(const LineRequest& request) {
    Words words;
    if (request.ssh_port) {
        words.push_back("-p " + std::to_string(*request.ssh_port));
    }
    if (!request.ssh_identity.empty()) {
        words.push_back("-i " + request.ssh_identity);
    }
    return join(words, " ");
}

Error cannot(const LineRequest& request, const std::string& what, const std::string& remedy) {
    return {Errc::invalid_argument,
            std::string(to_string(request.kind)) + " cannot " + what + "; " + remedy};
}

// ---- Open MPI and what was made from it ----

/// `--mca`, or PRRTE's own where the setting is about its daemons.
void add_setting(const LineRequest& request, Words& line, std::string name, std::string value) {
    const bool is_prrte = request.kind == Kind::open_mpi_5 && !name.starts_with("btl_");
    add(line, {is_prrte ? "--prtemca" : "--mca", std::move(name), std::move(value)});
}

void add_binding(const LineRequest& request, Words& line) {
    const bool is_prrte = request.kind == Kind::open_mpi_5;
    if (!request.binding_args.empty()) {
        add(line, request.binding_args);
    } else {
        const bool is_in_mapping = is_prrte && request.is_oversubscribed;
        add(line, {"--bind-to", "none", "--map-by", is_in_mapping ? "slot:OVERSUBSCRIBE" : "slot"});
    }
    if (request.is_oversubscribed && (!is_prrte || !request.binding_args.empty())) {
        add(line, {"--oversubscribe"});
    }
}

void add_connections(const LineRequest& request, Words& line) {
    const std::string agent = request.kind == Kind::open_mpi_5 ? "plm_ssh_" : "plm_rsh_";
    if (request.hosts.size() >= kManyHosts) {
        add_setting(request, line, agent + "no_tree_spawn", "true");
        add_setting(request, line, agent + "num_concurrent", std::to_string(request.hosts.size()));
    }
    if (const auto arguments = ssh_arguments(request); !arguments.empty()) {
        add_setting(request, line, agent + "args", arguments);
    }
    if (!request.interfaces.empty()) {
        const auto interfaces = join(request.interfaces, ",");
        add_setting(request, line, "btl_tcp_if_include", interfaces);
        add_setting(request, line, "oob_tcp_if_include", interfaces);
    }
}

std::string input_of_open_mpi(const LineRequest& request) {
    switch (request.input) {
        case Input::none: return "none";
        case Input::one: return std::to_string(request.input_rank);
        case Input::all: return "all";
    }
    return "none";
}

Line open_mpi_line(const LineRequest& request) {
    Words line{request.program, "--allow-run-as-root"};
    if (request.kind == Kind::open_mpi_5) {
        add(line, {"--output", "tag"});
    } else {
        add(line, {"--tag-output"});
    }
    add(line, {"--stdin", input_of_open_mpi(request)});
    add(line, {"-np", std::to_string(count_ranks(request)), "-H", list_hosts(request)});
    add_binding(request, line);
    add_connections(request, line);
    if (request.is_tcp && request.kind == Kind::spectrum) {
        add(line, {"-tcp"});
    }
    for (const auto& name : request.variables) {
        add(line, {"-x", name});
    }
    add(line, request.mpi_args);
    add(line, request.command);
    return {.argv = std::move(line), .env = {}};
}

// ---- hydra ----

bool has_even_hosts(const LineRequest& request) {
    return std::ranges::all_of(request.hosts, [&](const HostRanks& host) {
        return host.ranks == request.hosts.front().ranks;
    });
}

/// Intel's hydra reads no counts with its hosts.
Status add_hosts_of_intel(const LineRequest& request, Words& line) {
    if (!has_even_hosts(request)) {
        return cannot(request,
                      "start different numbers of ranks on hosts (" + list_hosts(request) + ")",
                      "give all hosts the same number of slots");
    }
    Words names;
    std::ranges::transform(request.hosts, std::back_inserter(names), &HostRanks::host);
    add(line, {"-ppn", std::to_string(request.hosts.front().ranks), "-hosts", join(names, ",")});
    return ok();
}

Result<Line> hydra_line(const LineRequest& request) {
    if (request.input == Input::all || (request.input == Input::one && request.input_rank != 0)) {
        return cannot(request, "give standard input to another rank than 0",
                      "use --stdin 0, or leave --mpi out");
    }
    if (request.interfaces.size() > 1) {
        return cannot(request, "use several interfaces (" + join(request.interfaces, ",") + ")",
                      "name one in --network-interfaces");
    }
    Line result{.argv = {request.program, "-l", "-np", std::to_string(count_ranks(request))},
                .env = {}};
    auto& line = result.argv;
    if (request.kind == Kind::intel) {
        HVD_TRY_STATUS(add_hosts_of_intel(request, line));
    } else {
        add(line, {"-hosts", list_hosts(request)});
    }
    if (!request.binding_args.empty()) {
        add(line, request.binding_args);
    } else if (request.kind == Kind::intel) {
        result.env.emplace("I_MPI_PIN", "off");
    } else {
        add(line, {"-bind-to", "none"});
    }
    if (const auto arguments = ssh_arguments(request); !arguments.empty()) {
        if (request.kind == Kind::intel) {
            add(line, {"-bootstrap", "ssh", "-bootstrap-exec-args", arguments});
        } else {
            add(line, {"-launcher", "ssh"});
            result.env.emplace("HYDRA_LAUNCHER_EXTRA_ARGS", arguments);
        }
    }
    if (!request.interfaces.empty()) {
        add(line, {"-iface", request.interfaces.front()});
    }
    if (!request.variables.empty()) {
        add(line, {"-genvlist", join(request.variables, ",")});
    }
    add(line, request.mpi_args);
    add(line, request.command);
    return result;
}

}  // namespace

Result<Line> make_line(const LineRequest& request) {
    if (request.kind == Kind::jsrun) {
        return jsrun_line(request);
    }
    return is_hydra(request.kind) ? hydra_line(request) : open_mpi_line(request);
}

}  // namespace hvd::launch::mpi
