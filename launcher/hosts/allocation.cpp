// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/allocation.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/hosts/host_ranges.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/hosts/hostfile.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace hvd::launch {
namespace {

using Hosts = Result<std::vector<Host>>;

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

Error wrong(std::string_view variable, std::string_view value, std::string_view why) {
    return {Errc::invalid_argument, std::string(variable) + "='" + std::string(value) +
                                        "': " + std::string(why) +
                                        "; write the hosts with -H or -hostfile"};
}

/// The words between blanks.
std::vector<std::string_view> words(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\n";
    std::vector<std::string_view> found;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
        if (text.empty()) {
            return found;
        }
        found.push_back(text.substr(0, text.find_first_of(kBlank)));
        text.remove_prefix(found.back().size());
    }
}

std::optional<int> slots_in(std::string_view text) {
    const auto number = parse_number<int>(text);
    return number && *number >= 1 && *number <= kMaxSlots ? number : std::nullopt;
}

/// One host, checked as if it had been written with -H.
Result<Host> named(std::string_view name, std::optional<int> slots) {
    HVD_TRY(auto hosts, parse_item(name));
    if (hosts.size() != 1 || hosts.front().slots) {
        return Error{Errc::invalid_argument,
                     "'" + std::string(name) + "' is not the name of one host"};
    }
    hosts.front().slots = slots;
    return std::move(hosts.front());
}

/// SLURM_TASKS_PER_NODE is what --ntasks-per-node allows, which may be more than --ntasks: the last
/// nodes have fewer then.
void limit_tasks(std::vector<Host>& hosts,
                 const Environment& environment,
                 const std::string& suffix) {
    const auto wanted = slots_in(find(environment, "SLURM_NTASKS" + suffix).value_or(""));
    int sum = 0;
    for (const auto& host : hosts) {
        sum += host.slots.value_or(0);
    }
    int surplus = wanted ? sum - *wanted : 0;
    for (auto host = hosts.rbegin(); host != hosts.rend() && surplus > 0; ++host) {
        const int less = std::min(surplus, host->slots.value_or(1) - 1);
        host->slots = host->slots.value_or(1) - less;
        surplus -= less;
    }
}

/// One group of a Slurm job: `suffix` is "" or "_HET_GROUP_1".
Hosts slurm_group(const Environment& environment, const std::string& suffix) {
    const auto list_name = "SLURM_JOB_NODELIST" + suffix;
    const auto list = find(environment, list_name).value_or("");
    std::vector<Host> hosts;
    for (const auto item : split_host_list(list)) {
        auto names = expand_ranges(item);
        if (!names || item.empty()) {
            return wrong(list_name, list, names ? "a name is missing" : names.error().message);
        }
        for (const auto& name : *names) {
            HVD_TRY(auto host, named(name, std::nullopt));
            hosts.push_back(std::move(host));
        }
    }
    const auto is_set = [&](const char* name) { return find(environment, name).has_value(); };
    if (!is_set("SLURM_NTASKS") && !is_set("SLURM_NPROCS") && !is_set("SLURM_NTASKS_PER_NODE")) {
        return hosts;  // Slurm counts then one task a node, which nobody asked for
    }
    const auto tasks_name = "SLURM_TASKS_PER_NODE" + suffix;
    const auto tasks = find(environment, tasks_name).value_or("");
    const auto slots = expand_counts(tasks);
    if (!slots || slots->size() != hosts.size()) {
        return wrong(tasks_name, tasks,
                     "it must have a number of tasks for each of the " +
                         std::to_string(hosts.size()) + " nodes of " + list_name + "='" + list +
                         "'");
    }
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        hosts[index].slots = (*slots)[index];
    }
    limit_tasks(hosts, environment, suffix);
    return hosts;
}

Hosts slurm_hosts(const Environment& environment) {
    HVD_TRY(auto components, slurm_components(environment));
    UniqueHosts hosts;
    for (auto& component : components) {
        HVD_TRY_STATUS(hosts.add(std::move(component)));
    }
    return hosts.take();
}

/// "a 4 b 2" → a with 4 slots, b with 2.
Hosts read_pairs(std::string_view variable, std::string_view text) {
    const auto all = words(text);
    UniqueHosts hosts;
    for (std::size_t at = 0; at + 1 < all.size(); at += 2) {
        const auto slots = slots_in(all[at + 1]);
        if (!slots) {
            return wrong(variable, text,
                         "'" + std::string(all[at + 1]) + "' is no number of slots");
        }
        HVD_TRY(auto host, named(all[at], slots));
        HVD_TRY_STATUS(hosts.add(std::move(host)));
    }
    if (all.empty() || all.size() % 2 != 0) {
        return wrong(variable, text, "it must have pairs of a host and its slots");
    }
    return hosts.take();
}

/// A slot for each name; names come again.
Hosts count_names(std::string_view variable, std::string_view value, std::string_view text) {
    const auto names = words(text);
    UniqueHosts hosts;
    for (const auto name : names) {
        HVD_TRY(auto host, named(name, 1));
        HVD_TRY_STATUS(hosts.add(std::move(host)));
    }
    if (names.empty()) {
        return wrong(variable, value, "no host is in it");
    }
    return hosts.take();
}

/// The text of the file that a variable of the batch system names.
Result<std::string> read_list(std::string_view variable, const std::string& path) {
    auto text = read_file(path, kMaxFileBytes);
    if (text) {
        return text;
    }
    return Error{text.error().code, std::string(variable) + "=" + text.error().message +
                                        "; write the hosts with -H or -hostfile"};
}

Hosts lsf_hosts(const Environment& environment) {
    Hosts hosts = std::vector<Host>{};
    if (const auto pairs = find(environment, "LSB_MCPU_HOSTS")) {
        hosts = read_pairs("LSB_MCPU_HOSTS", *pairs);
    } else if (const auto path = find(environment, "LSB_DJOB_HOSTFILE")) {
        HVD_TRY(const auto text, read_list("LSB_DJOB_HOSTFILE", *path));
        hosts = count_names("LSB_DJOB_HOSTFILE", *path, text);
    } else {
        const auto names = find(environment, "LSB_HOSTS").value_or("");
        hosts = count_names("LSB_HOSTS", names, names);
    }
    if (hosts && hosts->size() > 1 && find(environment, "CSM_ALLOCATION_ID")) {
        hosts->erase(hosts->begin());  // the launch node computes nothing
    }
    return hosts;
}

Hosts pbs_hosts(const Environment& environment) {
    const auto path = find(environment, "PBS_NODEFILE").value_or("");
    HVD_TRY(const auto text, read_list("PBS_NODEFILE", path));
    return count_names("PBS_NODEFILE", path, text);
}

Hosts sge_hosts(const Environment& environment) {
    const auto path = find(environment, "PE_HOSTFILE").value_or("");
    HVD_TRY(const auto text, read_list("PE_HOSTFILE", path));
    std::string pairs;
    for (const auto line : split(text, '\n')) {
        const auto columns = words(line);
        for (const auto column :
             std::span(columns).first(std::min<std::size_t>(2, columns.size()))) {
            pairs += std::string(column) + " ";
        }
    }
    return read_pairs("PE_HOSTFILE", pairs);
}

constexpr std::array kHostfileVariables{"OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE",
                                        "HYDRA_HOST_FILE"};

/// As Debian's own /etc/openmpi/openmpi-default-hostfile, which is there for comments alone.
bool has_only_comments(const std::string& path) {
    const auto text = read_file(path, kMaxFileBytes);
    return text && std::ranges::all_of(split(*text, '\n'), [](std::string_view line) {
               return trim(line.substr(0, line.find('#'))).empty();
           });
}

/// The variable whose file has the hosts of a pod. MPIs read these variables anywhere: they are the
/// mpi-operator's with the folder that it mounts, or in a pod with a file that names hosts.
std::optional<std::string_view> find_hostfile_variable(const Environment& environment) {
    const bool is_in_pod = find(environment, "KUBERNETES_SERVICE_HOST").has_value();
    const auto* const found =
        std::ranges::find_if(kHostfileVariables, [&](std::string_view variable) {
            const auto file = find(environment, variable);
            return file &&
                   (file->starts_with("/etc/mpi/") || (is_in_pod && !has_only_comments(*file)));
        });
    return found == kHostfileVariables.end() ? std::nullopt
                                             : std::optional<std::string_view>(*found);
}

bool is_in_pod(const Environment& environment) {
    return find_hostfile_variable(environment).has_value();
}

Hosts kubernetes_hosts(const Environment& environment) {
    const std::string variable(*find_hostfile_variable(environment));
    auto hosts = read_hostfile(find(environment, variable).value_or(""));
    return hosts ? std::move(hosts) : std::move(hosts).error().context(variable);
}

template <const auto& kVariables>
bool has_any(const Environment& environment) {
    return std::ranges::any_of(kVariables, [&](std::string_view variable) {
        return find(environment, variable).has_value();
    });
}

/// One kind of batch system: what shows that we are in it, and how it names a job.
struct Kind {
    Scheduler scheduler;
    bool (*is_here)(const Environment&);
    std::string_view title;
    std::string_view id;  // the variable with the number of the job
    Hosts (*read)(const Environment&);
};

constexpr std::array kSlurmMarks{"SLURM_JOB_NODELIST", "SLURM_HET_SIZE"};
constexpr std::array kLsfMarks{"LSB_MCPU_HOSTS", "LSB_DJOB_HOSTFILE", "LSB_HOSTS"};
constexpr std::array kPbsMarks{"PBS_NODEFILE"};
constexpr std::array kSgeMarks{"PE_HOSTFILE"};

constexpr std::array kKinds{
    Kind{Scheduler::slurm, &has_any<kSlurmMarks>, "Slurm job", "SLURM_JOB_ID", &slurm_hosts},
    Kind{Scheduler::lsf, &has_any<kLsfMarks>, "LSF job", "LSB_JOBID", &lsf_hosts},
    Kind{Scheduler::pbs, &has_any<kPbsMarks>, "PBS job", "PBS_JOBID", &pbs_hosts},
    Kind{Scheduler::sge, &has_any<kSgeMarks>, "Grid Engine job", "JOB_ID", &sge_hosts},
    Kind{Scheduler::kubernetes, &is_in_pod, "Kubernetes pod", "HOSTNAME", &kubernetes_hosts}};

}  // namespace

Result<std::vector<std::vector<Host>>> slurm_components(const Environment& environment) {
    std::vector<std::vector<Host>> components;
    const auto groups_text = find(environment, "SLURM_HET_SIZE");
    if (!groups_text) {
        HVD_TRY(auto hosts, slurm_group(environment, ""));
        components.push_back(std::move(hosts));
        return components;
    }
    const auto groups = slots_in(*groups_text);
    if (!groups) {
        return wrong("SLURM_HET_SIZE", *groups_text, "this is no number of groups");
    }
    for (int group = 0; group < *groups; ++group) {
        HVD_TRY(auto hosts, slurm_group(environment, "_HET_GROUP_" + std::to_string(group)));
        components.push_back(std::move(hosts));
    }
    return components;
}

Result<std::optional<Allocation>> find_allocation(const Environment& environment) {
    const auto* const kind =
        std::ranges::find_if(kKinds, [&](const Kind& each) { return each.is_here(environment); });
    if (kind == kKinds.end()) {
        return std::optional<Allocation>{};
    }
    HVD_TRY(auto hosts, kind->read(environment));
    auto name = std::string(kind->title);
    const auto id = find(environment, kind->id).value_or("");
    if (!id.empty()) {
        name += " " + id;
    }
    return std::optional<Allocation>{{.scheduler = kind->scheduler,
                                      .name = std::move(name),
                                      .id = id,
                                      .hosts = std::move(hosts)}};
}

}  // namespace hvd::launch
