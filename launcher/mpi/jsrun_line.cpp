// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/jsrun_line.hpp"

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
bool is_even(const Job& job) {
    const auto& hosts = job.resources;
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        if (hosts[index].number != static_cast<int>(index) + 1 ||
            hosts[index].slots != hosts.front().slots ||
            hosts[index].gpus.size() != hosts.front().gpus.size() ||
            hosts[index].rank_cpus.size() != hosts.front().rank_cpus.size()) {
            return false;
        }
    }
    return hosts.size() == job.options.allocation.size();
}

/// A set for each host; the shim binds.
Words resource_sets(const Job& job) {
    const auto& host = job.resources.front();
    Words words{"--nrs",          std::to_string(job.resources.size()),
                "--rs_per_host",  "1",
                "--tasks_per_rs", std::to_string(host.rank_cpus.size()),
                "--cpu_per_rs",   std::to_string(host.slots)};
    if (!host.gpus.empty()) {
        add(words, {"--gpu_per_rs", std::to_string(host.gpus.size())});
    }
    add(words, {"--launch_distribution", "packed", "--bind", "none"});
    return words;
}

/// "0,1,2": ranges beside commas are in no example of IBM's.
std::string list(const std::vector<int>& numbers) {
    std::string text;
    for (const int number : numbers) {
        text += (text.empty() ? "" : ",") + std::to_string(number);
    }
    return text;
}

/// We assume that jsrun's logical number of a CPU is its place among the hardware threads that the
/// job may use on the host. Where that is wrong, a set has other CPUs of the host than its rank is
/// pinned to, and it is the shim that pins.
std::vector<int> logical(const std::vector<int>& cpus, const std::vector<int>& usable) {
    std::vector<int> places;
    places.reserve(cpus.size());
    for (const int cpu : cpus) {
        places.push_back(static_cast<int>(std::ranges::lower_bound(usable, cpu) - usable.begin()));
    }
    return places;
}

/// Resources that the ranks of a host share, all its GPUs and the CPUs of unpinned ranks, are in
/// several sets. Nodes refuse physical numbers at places; a number too many is no reason to fail.
std::string resource_file(const Job& job) {
    std::string text =
        "cpu_index_using: logical\n"
        "skip_missing_cpu: warn\n"
        "skip_missing_gpu: allow\n"
        "skip_missing_mem: allow\n"
        "overlapping_rs: allow\n"
        "oversubscribe_cpu: allow\n"
        "oversubscribe_gpu: allow\n"
        "oversubscribe_mem: allow\n";
    int rank = 0;
    for (const auto& host : job.resources) {
        const auto gpus = host.gpus.empty() ? std::string() : "; gpu: {" + list(host.gpus) + "}";
        for (const auto& cpus : host.rank_cpus) {
            text += "rank: " + std::to_string(rank++) + ": { host: " + std::to_string(host.number) +
                    "; cpu: {" + list(logical(cpus.empty() ? host.cpus : cpus, host.cpus)) + "}" +
                    gpus + " }\n";
        }
    }
    return text;
}

bool has_smpiargs(const Words& words) {
    return std::ranges::any_of(words, [](const std::string& word) {
        return word == "--smpiargs" || word.starts_with("--smpiargs=") || word.starts_with("-M");
    });
}

/// jsrun preloads Spectrum MPI's CUDA hooks, with which a program that uses CUDA without that MPI,
/// as our ranks do, fails: "CUDA Hook Library: Failed to find symbol mem_find_dreg_entries".
/// jsrun takes the option once, so the user's value replaces ours.
Words smpiargs(const Job& job) {
    if (has_smpiargs(job.options.args) || has_smpiargs(job.options.binding_args)) {
        return {};
    }
    return {std::string("--smpiargs=-disable_gpu_hooks") + (job.options.is_tcp ? " -tcp" : "")};
}

}  // namespace

Result<Line> jsrun_line(const Job& job) {
    if (job.input == Input::all || (job.input == Input::one && job.input_rank != 0)) {
        return Error{Errc::invalid_argument,
                     "jsrun cannot give standard input to another rank than 0; use --stdin 0, or "
                     "leave --jsrun out"};
    }
    Line result{.argv = {job.options.program}, .env = {}};
    auto& line = result.argv;
    if (!job.options.binding_args.empty()) {
        add(line, job.options.binding_args);
    } else if (is_even(job)) {
        add(line, resource_sets(job));
    } else {
        add(line, {"--erf_input", job.resource_file});
        result.resource_text = resource_file(job);
    }
    add(line, {"--stdio_mode", "prepended"});
    add(line, smpiargs(job));
    for (const auto& name : job.variables) {
        add(line, {"-E", name});
    }
    add(line, job.options.args);
    add(line, job.command);
    return result;
}

}  // namespace hvd::launch::mpi
