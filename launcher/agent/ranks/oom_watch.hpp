// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/ranks/kernel_log.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// Where the kernel counts the processes that it killed for want of memory, best place first.
/// `cgroups` is the text of /proc/self/cgroup. All of these files have a line "oom_kill N".
[[nodiscard]] std::vector<std::string> oom_counter_files(std::string_view cgroups);

/// The N of the line "oom_kill N".
[[nodiscard]] std::optional<std::uint64_t> parse_oom_count(std::string_view text);

/// Where the limits stand that a process counted in this file is under: its cgroup's own first,
/// then those above it.
[[nodiscard]] std::vector<std::string> memory_limit_files(std::string_view counter_file);

/// Where the kernel keeps the most memory that a cgroup ever used, beside the file of its limit.
[[nodiscard]] std::string memory_peak_file(std::string_view limit_file);

/// In bytes; nothing where the file says that there is none.
[[nodiscard]] std::optional<std::uint64_t> parse_memory_limit(std::string_view text);

/// Tells whether the kernel ended one of us for want of memory. A process that it killed so looks
/// like any other that was killed with SIGKILL.
class OomWatch final {
public:
    /// Finds the counter and remembers where it stands. `root` is put before every path.
    void start(std::string root = {});

    /// From now on this counter in the place of the whole machine's, where that is all there is (in
    /// the root of version 2) and the file exists.
    void narrow_to(std::string counter_file);

    /// Hears from now on what the kernel logs of its kills. Call it once `start` was called; it may
    /// take longer.
    void start_log() { log_.start(root_); }

    /// Why we say that memory ran out for a process that KILL ended: "its cgroup's oom_kill rose by
    /// 1 (limit 512 MiB), peak 511.9 MiB", and what the kernel's log says of it where that may be
    /// read. Empty when the counter stands no higher than the kills that were accounted for, and
    /// the log does not name the process; accounts for one.
    [[nodiscard]] std::string take_kill(pid_t pid);

private:
    [[nodiscard]] bool start_counter(std::string name);
    [[nodiscard]] std::optional<std::uint64_t> read_bytes(const std::string& file) const;
    [[nodiscard]] std::string describe_limit() const;
    [[nodiscard]] std::string take_rise();

    std::string root_;
    std::string name_;
    UniqueFd file_;
    std::uint64_t count_ = 0;
    KernelLog log_;
};

}  // namespace hvd::launch::agent
