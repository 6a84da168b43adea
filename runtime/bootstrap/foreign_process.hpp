// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::rt {

/// A process and the moment of its start, which together are never used twice.
struct ProcessId {
    pid_t pid = 0;
    std::string start_time;  // as in /proc/PID/stat; empty where that is hidden
};

/// The nearest ancestor of this process whose environment lacks `mark`: wrappers such as a shell
/// inherit it, the launcher itself does not have it. Errors: unavailable.
[[nodiscard]] Result<ProcessId> find_launcher(std::string_view mark);

/// Of two launchers whose marks this process has, whether the first was started by the second: its
/// own environment has the other's mark.
[[nodiscard]] bool is_started_by(std::string_view mark, std::string_view outer_mark);

}  // namespace hvd::rt
