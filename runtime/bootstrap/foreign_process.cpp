// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/foreign_process.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <unistd.h>

namespace hvd::rt {
namespace {

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

Result<ProcessId> find_launcher(std::string_view mark) {
    pid_t pid = ::getpid();
    while (true) {
        const auto found = read_stat(pid);
        if (!found && pid != ::getpid()) {
            return ProcessId{.pid = pid, .start_time = {}};  // hidden (hidepid): of another user
        }
        HVD_TRY(const auto stat, found);
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

bool is_started_by(std::string_view mark, std::string_view outer_mark) {
    const auto launcher = find_launcher(mark);
    if (!launcher) {
        return false;
    }
    const auto environment = read_file(proc_path(launcher->pid, "environ"), kMaxProcFile);
    return environment && has_entry(*environment, outer_mark);
}

}  // namespace hvd::rt
