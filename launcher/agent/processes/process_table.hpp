// SPDX-License-Identifier: Apache-2.0
//
// Which processes belong to the job, and how they are ended: by parentage (guard and agent are
// subreapers, so nobody escapes by forking twice), then by session, then by the job id in their
// environment; never by a name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// What /proc/PID/stat says.
struct Process {
    pid_t pid = 0;
    pid_t parent = 0;
    pid_t session = 0;
    char state = '?';
    std::uint64_t cpu_ticks = 0;   // user and system, with the children that it has reaped
    std::uint64_t start_time = 0;  // tells two processes of one number apart

    friend bool operator==(const Process&, const Process&) = default;
};

/// Reads the text of /proc/PID/stat, whatever the program calls itself.
[[nodiscard]] std::optional<Process> parse_process(std::string_view stat);

/// All of `processes` that descend from `ancestor`, without it.
[[nodiscard]] std::vector<Process> descendants(std::span<const Process> processes, pid_t ancestor);

[[nodiscard]] std::optional<Process> read_process(pid_t pid);

/// Everybody on this machine.
[[nodiscard]] std::vector<Process> list_processes();

/// `pid` and its ancestors up to `ancestor`; nothing where it is no descendant of that.
[[nodiscard]] std::vector<Process> lineage(pid_t pid, pid_t ancestor);

/// The chain of parents of `pid`, the nearest first, as far as it is known.
[[nodiscard]] std::vector<Process> ancestors(pid_t pid);

/// Sends the signal unless the process has ended meanwhile and its number went to another.
void send_signal(const Process& process, int number);

/// Names a job by what its processes cannot shed all at once.
struct JobMarks {
    pid_t guard = 0;     // leader of their session, or
    pid_t agent = 0;     // this is; their ancestor
    std::string job_id;  // in their environment; empty before a job has begun
};

/// Living processes of the job besides guard and agent. Zombies are left out.
[[nodiscard]] std::vector<Process> find_job(const JobMarks& marks);

/// The kernel function in which the process sleeps, "" where that is unknown.
[[nodiscard]] std::string wait_channel(pid_t pid);

}  // namespace hvd::launch::agent
