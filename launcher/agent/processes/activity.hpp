// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/processes/process_table.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The activity of a process, or of a child for which it waits, as a shell waits for its command.
struct Activity {
    char state = '?';  // of /proc/PID/stat
    std::string wait_channel{};
    std::chrono::milliseconds cpu_time{0};  // of the process and all its descendants
};

/// The process of the tree whose state explains most: one that is stopped before one that runs,
/// that before one that waits; among equal ones the one that has taken most CPU time, which is no
/// shell that waits and no small helper. Pure. `tree` is not empty.
[[nodiscard]] const Process& most_telling(std::span<const Process> tree);

/// Nothing where the process is not among `processes`: it has ended.
[[nodiscard]] std::optional<Activity> activity_of(pid_t pid, std::span<const Process> processes);

}  // namespace hvd::launch::agent
