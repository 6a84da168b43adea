// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/process_table.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/pidfd.hpp"
#include "collectives/base/text.hpp"
#include "collectives/launch_contract/launch_env.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <set>
#include <utility>

#include <dirent.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxProcText = std::size_t{4} << 20;

// Positions in /proc/PID/stat after the name in parentheses.
constexpr std::size_t kStateField = 0;
constexpr std::size_t kParentField = 1;
constexpr std::size_t kSessionField = 3;
constexpr std::size_t kFirstTimeField = 11;  // user, system, and both of reaped children
constexpr std::size_t kTimeFields = 4;
constexpr std::size_t kStartTimeField = 19;

std::string proc_file(pid_t pid, std::string_view name) {
    return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

struct DirectoryCloser {
    void operator()(DIR* directory) const noexcept { (void)::closedir(directory); }
};

bool is_marked(pid_t pid, const std::string& job_id) {
    if (job_id.empty()) {
        return false;
    }
    const auto text = read_file(proc_file(pid, "environ"), kMaxProcText);
    const auto wanted = std::string(coll::kEnvJobId) + "=" + job_id;
    if (!text) {
        return false;  // of another user, or gone
    }
    const auto variables = split(*text, '\0');
    return std::ranges::find(variables, wanted) != variables.end();
}

}  // namespace

std::optional<Process> parse_process(std::string_view stat) {
    // The name may hold anything, parentheses and blanks too; nothing after it holds a ')'.
    const auto name_begin = stat.find(" (");
    const auto name_end = stat.rfind(") ");
    if (name_begin == std::string_view::npos || name_end == std::string_view::npos ||
        name_end < name_begin) {
        return std::nullopt;
    }
    const auto fields = split(trim(stat.substr(name_end + 2)), ' ');
    if (fields.size() <= kStartTimeField || fields[kStateField].size() != 1) {
        return std::nullopt;
    }
    const auto pid = parse_number<pid_t>(stat.substr(0, name_begin));
    const auto parent = parse_number<pid_t>(fields[kParentField]);
    const auto session = parse_number<pid_t>(fields[kSessionField]);
    const auto start_time = parse_number<std::uint64_t>(fields[kStartTimeField]);
    if (!pid || !parent || !session || !start_time) {
        return std::nullopt;
    }
    std::uint64_t cpu_ticks = 0;
    for (const auto field : std::span(fields).subspan(kFirstTimeField, kTimeFields)) {
        cpu_ticks += parse_number<std::uint64_t>(field).value_or(0);
    }
    return Process{.pid = *pid,
                   .parent = *parent,
                   .session = *session,
                   .state = fields[kStateField].front(),
                   .cpu_ticks = cpu_ticks,
                   .start_time = *start_time};
}

std::vector<Process> descendants(std::span<const Process> processes, pid_t ancestor) {
    std::vector<Process> found;
    std::set<pid_t> family{ancestor};
    // Numbers wrap around, so that a child may come before its parent: until nothing is added.
    for (bool grows = true; grows;) {
        grows = false;
        for (const auto& process : processes) {
            if (family.contains(process.parent) && family.insert(process.pid).second) {
                found.push_back(process);
                grows = true;
            }
        }
    }
    return found;
}

std::optional<Process> read_process(pid_t pid) {
    const auto text = read_file(proc_file(pid, "stat"), kMaxProcText);
    return text ? parse_process(*text) : std::nullopt;
}

std::vector<Process> list_processes() {
    std::vector<Process> processes;
    const std::unique_ptr<DIR, DirectoryCloser> directory(::opendir("/proc"));
    if (!directory) {
        return processes;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is our own
    while (const dirent* entry = ::readdir(directory.get())) {
        const auto pid = parse_number<pid_t>(entry->d_name);
        if (!pid) {
            continue;
        }
        if (auto process = read_process(*pid)) {
            processes.push_back(*process);
        }
    }
    return processes;
}

std::vector<Process> lineage(pid_t pid, pid_t ancestor) {
    std::vector<Process> found;
    while (const auto process = pid > 0 ? read_process(pid) : std::nullopt) {
        found.push_back(*process);
        if (pid == ancestor) {
            return found;
        }
        pid = process->parent;
    }
    return {};
}

std::vector<Process> ancestors(pid_t pid) {
    std::vector<Process> found;
    auto process = read_process(pid);
    while (process && process->parent > 0) {
        process = read_process(process->parent);
        if (process) {
            found.push_back(*process);
        }
    }
    return found;
}

void send_signal(const Process& process, int number) {
    const auto pidfd = open_pidfd(process.pid);
    const auto now = read_process(process.pid);
    if (now && now->start_time == process.start_time) {
        (void)send_signal_by(pidfd.get(), process.pid, number);
    }
}

std::vector<Process> find_job(const JobMarks& marks) {
    const auto processes = list_processes();
    auto job = descendants(processes, marks.agent);
    const auto from_guard = descendants(processes, marks.guard);
    job.insert(job.end(), from_guard.begin(), from_guard.end());
    std::set<pid_t> known{marks.guard, marks.agent};
    for (const auto& process : processes) {
        if (known.contains(process.session) || is_marked(process.pid, marks.job_id)) {
            job.push_back(process);
        }
    }
    std::erase_if(job, [&](const Process& process) {
        return process.state == 'Z' || process.state == 'X' || !known.insert(process.pid).second;
    });
    return job;
}

std::string wait_channel(pid_t pid) {
    const auto text = read_file(proc_file(pid, "wchan"), kMaxProcText);
    return text ? std::string(trim(*text)) : "";
}

}  // namespace hvd::launch::agent
