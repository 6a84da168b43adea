// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/jsrun_line.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::mpi {
namespace {

using Words = std::vector<std::string>;

void add(Words& line, const Words& words) {
    line.insert(line.end(), words.begin(), words.end());
}

/// jsrun fills resource sets in the order of the allocation's hosts.
bool is_even(const LineRequest& request) {
    const auto& hosts = request.resources;
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        if (hosts[index].number != static_cast<int>(index) + 1 ||
            hosts[index].slots != hosts.front().slots ||
            hosts[index].gpus.size() != hosts.front().gpus.size() ||
            hosts[index].rank_cpus.size() != hosts.front().rank_cpus.size()) {
            return false;
        }
    }
    return static_cast<int>(hosts.size()) == request.allocated_hosts;
}

/// A set for each host; the shim binds.
Words resource_sets(const LineRequest& request) {
    const auto& host = request.resources.front();
    Words words{"--nrs",          std::to_string(request.resources.size()),
                "--rs_per_host",  "1",
                "--tasks_per_rs", std::to_string(host.rank_cpus.size()),
                "--cpu_per_rs",   std::to_string(host.slots)};
    if (!host.gpus.empty()) {
        add(words, {"--gpu_per_rs", std::to_string(host.gpus.size())});
    }
    add(words, {"--launch_distribution", "packed", "--bind", "none"});
    return words;
}

/// CPUs are hardware threads, as the kernel numbers them. What ranks of a host share, all its GPUs
/// and the CPUs of those that are not pinned, is in several sets.
std::string resource_file(const LineRequest& request) {
    std::string text =
        "cpu_index_using: physical\n"
        "overlapping_rs: allow\n"
        "oversubscribe_cpu: allow\n"
        "oversubscribe_gpu: allow\n"
        "oversubscribe_mem: allow\n";
    int rank = 0;
    for (const auto& host : request.resources) {
        const auto gpus =
            host.gpus.empty() ? std::string() : "; gpu: {" + format_ranges(host.gpus) + "}";
        for (const auto& cpus : host.rank_cpus) {
            text += "rank: " + std::to_string(rank++) + ": { host: " + std::to_string(host.number) +
                    "; cpu: {" + format_ranges(cpus.empty() ? host.cpus : cpus) + "}" + gpus +
                    " }\n";
        }
    }
    return text;
}

}  // namespace

Result<Line> jsrun_line(const LineRequest& request) {
    if (request.input == Input::all || (request.input == Input::one && request.input_rank != 0)) {
        return Error{Errc::invalid_argument,
                     "jsrun cannot give standard input to another rank than 0; use --stdin 0, or "
                     "leave --jsrun out"};
    }
    Line result{.argv = {request.program}, .env = {}};
    auto& line = result.argv;
    if (!request.binding_args.empty()) {
        add(line, request.binding_args);
    } else if (is_even(request)) {
        add(line, resource_sets(request));
    } else {
        add(line, {"--erf_input", request.resource_file});
        result.resource_text = resource_file(request);
    }
    add(line, {"--stdio_mode", "prepended"});
    if (request.is_tcp) {
        add(line, {"--smpiargs=-tcp"});
    }
    for (const auto& name : request.variables) {
        add(line, {"-E", name});
    }
    add(line, request.mpi_args);
    add(line, request.command);
    return result;
}

}  // namespace hvd::launch::mpi
