// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/foreign_launch.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <unistd.h>

namespace hvd::rt {
namespace {

struct Dialect {
    std::string_view launcher;
    std::string_view rank;
    std::string_view size;
    std::string_view local_rank;
    std::string_view local_size;
    std::string_view job;  // the same on all ranks of a job, and of no other job
};

constexpr Dialect kDialects[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"mpiexec.hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

Result<int> read_number(const Environment& environment, std::string_view name, int least) {
    const auto text = find(environment, name);
    if (!text) {
        return Error{Errc::invalid_argument, std::string(name) + " is missing"};
    }
    const auto number = parse_number<int>(*text);
    if (!number || *number < least) {
        return Error{Errc::invalid_argument, std::string(name) + "='" + *text +
                                                 "' is not a number from " + std::to_string(least)};
    }
    return *number;
}

Result<coll::Topology> read_topology(const Environment& environment, const Dialect& dialect) {
    coll::Topology topology;
    HVD_TRY(topology.rank, read_number(environment, dialect.rank, 0));
    HVD_TRY(topology.size, read_number(environment, dialect.size, 1));
    HVD_TRY(topology.local_rank, read_number(environment, dialect.local_rank, 0));
    HVD_TRY(topology.local_size, read_number(environment, dialect.local_size, 1));
    if (topology.rank >= topology.size || topology.local_rank >= topology.local_size ||
        topology.local_size > topology.size) {
        return Error{Errc::invalid_argument, "rank " + std::to_string(topology.rank) + " of " +
                                                 std::to_string(topology.size) + ", local rank " +
                                                 std::to_string(topology.local_rank) + " of " +
                                                 std::to_string(topology.local_size) +
                                                 " cannot be"};
    }
    // Exact where there is one host, which is all that this launch serves.
    topology.cross_size = topology.size / topology.local_size;
    topology.cross_rank = topology.rank / topology.local_size;
    return topology;
}

constexpr std::size_t kMaxProcFile = std::size_t{16} << 20;

std::string proc_path(pid_t pid, std::string_view file) {
    return "/proc/" + std::to_string(pid) + "/" + std::string(file);
}

bool has_entry(std::string_view environment, std::string_view prefix) {
    return std::ranges::any_of(split(environment, '\0'),
                               [&](std::string_view entry) { return entry.starts_with(prefix); });
}

/// Fields of /proc/PID/stat behind the name, which may contain anything.
Result<std::vector<std::string>> read_stat(pid_t pid) {
    HVD_TRY(const auto text, read_file(proc_path(pid, "stat"), kMaxProcFile));
    std::vector<std::string> fields;
    for (const auto field : split(trim(std::string_view(text).substr(text.rfind(')') + 1)), ' ')) {
        fields.emplace_back(field);
    }
    return fields;
}

constexpr std::size_t kParent = 1;  // behind the name
constexpr std::size_t kStartTime = 19;

}  // namespace

Result<std::optional<ForeignLaunch>> decode_foreign_launch(const Environment& environment) {
    for (const auto& dialect : kDialects) {
        if (!find(environment, dialect.rank)) {
            continue;
        }
        auto topology = read_topology(environment, dialect);
        if (!topology) {
            return std::move(topology).error().context("the environment of " +
                                                       std::string(dialect.launcher));
        }
        // Without a name of the job, the rank's variable must do: the launcher has none.
        const auto job = find(environment, dialect.job);
        return std::optional(ForeignLaunch{
            .launcher = dialect.launcher,
            .topology = *topology,
            .mark = job ? std::string(dialect.job) + "=" + *job : std::string(dialect.rank) + "="});
    }
    return std::optional<ForeignLaunch>{};
}

Result<ProcessId> find_launcher(std::string_view mark) {
    pid_t pid = ::getpid();
    while (true) {
        HVD_TRY(const auto stat, read_stat(pid));
        if (stat.size() <= kStartTime) {
            return Error{Errc::unavailable, proc_path(pid, "stat") + " cannot be read"};
        }
        // A process whose environment is closed to us is of another user: none of our ranks.
        const auto environment = read_file(proc_path(pid, "environ"), kMaxProcFile);
        if (!environment || !has_entry(*environment, mark)) {
            return ProcessId{.pid = pid, .start_time = stat[kStartTime]};
        }
        const auto parent = parse_number<pid_t>(stat[kParent]);
        if (!parent || *parent == 0) {
            return Error{Errc::unavailable, "the launcher of this process is gone"};
        }
        pid = *parent;
    }
}

}  // namespace hvd::rt
