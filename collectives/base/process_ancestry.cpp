// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/process_ancestry.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace hvd {
namespace {

constexpr int kMaxGenerations = 64;
constexpr std::size_t kMaxProcFile = std::size_t{16} << 20;

// Fields of /proc/PID/stat behind the name.
constexpr std::size_t kParent = 1;
constexpr std::size_t kStartTime = 19;

std::string proc_path(pid_t pid, std::string_view file) {
    return "/proc/" + std::to_string(pid) + "/" + std::string(file);
}

bool has_entry(std::string_view environment, std::string_view wanted) {
    return std::ranges::any_of(split(environment, '\0'), [&](std::string_view entry) {
        return entry == wanted || (wanted.ends_with('=') && entry.starts_with(wanted));
    });
}

/// "42 (any name, with blanks or ')') S 41 ...": the fields behind the name.
std::vector<std::string_view> fields_of(std::string_view stat) {
    const auto name_end = stat.rfind(')');
    return name_end == std::string_view::npos ? std::vector<std::string_view>{}
                                              : split(trim(stat.substr(name_end + 1)), ' ');
}

/// Without an allocation for the text: the agent asks for many processes.
std::optional<pid_t> parent_of(pid_t pid) {
    const UniqueFd file(::open(proc_path(pid, "stat").c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> text{};
    const auto size = ::read(file.get(), text.data(), text.size());
    if (size <= 0) {
        return std::nullopt;
    }
    return parent_from_stat({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace

std::optional<pid_t> parent_from_stat(std::string_view stat) {
    const auto fields = fields_of(stat);
    return fields.size() <= kParent ? std::nullopt : parse_number<pid_t>(fields[kParent]);
}

bool is_ancestor(pid_t ancestor, pid_t pid) {
    for (int generation = 0; generation < kMaxGenerations; ++generation) {
        const auto parent = parent_of(pid);
        if (!parent || *parent == 0) {
            return false;
        }
        if (*parent == ancestor) {
            return true;
        }
        pid = *parent;
    }
    return false;
}

ProcessId identify_process(pid_t pid) {
    const auto stat = read_file(proc_path(pid, "stat"), kMaxProcFile);
    const auto fields = stat ? fields_of(*stat) : std::vector<std::string_view>();
    return {.pid = pid,
            .start_time = fields.size() > kStartTime ? std::string(fields[kStartTime]) : ""};
}

Result<ProcessId> find_ancestor_without(std::string_view entry) {
    pid_t pid = ::getpid();
    while (true) {
        const auto text = read_file(proc_path(pid, "stat"), kMaxProcFile);
        if (!text && pid != ::getpid()) {
            return ProcessId{.pid = pid, .start_time = {}};  // hidden (hidepid): of another user
        }
        HVD_TRY(const auto stat, text);
        const auto fields = fields_of(stat);
        if (fields.size() <= kStartTime) {
            return Error{Errc::unavailable, proc_path(pid, "stat") + " cannot be read"};
        }
        // A process whose environment is closed to us is of another user: none of our ranks.
        const auto environment = read_file(proc_path(pid, "environ"), kMaxProcFile);
        if (!environment || !has_entry(*environment, entry)) {
            return ProcessId{.pid = pid, .start_time = std::string(fields[kStartTime])};
        }
        const auto parent = parse_number<pid_t>(fields[kParent]);
        if (!parent || *parent == 0) {
            return Error{Errc::unavailable, "the launcher of this process is gone"};
        }
        pid = *parent;
    }
}

bool is_started_by(std::string_view entry, std::string_view outer_entry) {
    const auto launcher = find_ancestor_without(entry);
    if (!launcher) {
        return false;
    }
    const auto environment = read_file(proc_path(launcher->pid, "environ"), kMaxProcFile);
    return environment && has_entry(*environment, outer_entry);
}

}  // namespace hvd
