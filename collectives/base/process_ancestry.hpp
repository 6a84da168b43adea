// SPDX-License-Identifier: Apache-2.0
//
// Which process started which, as /proc tells it.
#pragma once

#include "collectives/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd {

/// The parent's pid from the text of /proc/PID/stat, whatever the program is called.
[[nodiscard]] std::optional<pid_t> parent_from_stat(std::string_view stat);

/// Whether `ancestor` started `pid`, directly or through others. False where /proc does not tell.
[[nodiscard]] bool is_ancestor(pid_t ancestor, pid_t pid);

/// A process and the moment of its start, which together are never used twice.
struct ProcessId {
    pid_t pid = 0;
    std::string start_time;  // as in /proc/PID/stat; empty where that is hidden
};

/// Its start time is empty where /proc does not tell it.
[[nodiscard]] ProcessId identify_process(pid_t pid);

/// The nearest ancestor of this process, or itself, whose environment lacks `entry`, which is
/// "NAME=" for any value of that variable: wrappers such as a shell inherit the entry, the launcher
/// that set it does not have it. Errors: unavailable.
[[nodiscard]] Result<ProcessId> find_ancestor_without(std::string_view entry);

/// Of two launchers whose entries this process has, whether the first was started by the second:
/// its own environment has the other's entry.
[[nodiscard]] bool is_started_by(std::string_view entry, std::string_view outer_entry);

}  // namespace hvd
