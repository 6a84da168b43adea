// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::launch::agent {

/// A process that the kernel says it killed for want of memory.
struct MemoryKill {
    pid_t pid = 0;     // in the initial PID namespace
    std::string text;  // "Killed process 813 (python) total-vm:...kB, anon-rss:...kB, ..."

    friend bool operator==(const MemoryKill&, const MemoryKill&) = default;
};

/// Reads a record of /dev/kmsg, "4,1207,89123456,-;TEXT". Nothing where it is about something else,
/// or was written by a program.
[[nodiscard]] std::optional<MemoryKill> parse_memory_kill(std::string_view record);

/// Whether the numbers of processes here are the kernel's own. `link` is what /proc/self/ns/pid
/// leads to.
[[nodiscard]] bool is_first_pid_namespace(std::string_view link);

/// The kernel's log from the start on. Empty where it may not be read, or where its process ids
/// belong to another PID namespace.
class KernelLog final {
public:
    /// `root` is put before every path.
    void start(const std::string& root = {});

    /// The kernel's words on the end of this process; empty: there are none.
    [[nodiscard]] std::string find_kill(pid_t pid);

private:
    void read_on();

    UniqueFd file_;
    std::map<pid_t, std::string> kills_;  // not asked for yet
};

}  // namespace hvd::launch::agent
