// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <string>

#include <sys/resource.h>

namespace hvd::launch {

/// Raises this process's soft limit of open files to the hard one. Returns the new limit.
[[nodiscard]] rlim_t raise_open_files();

/// Restores the limit. For a child between vfork and exec: it makes system calls only.
void restore_open_files() noexcept;

/// The files that a start needs, against the limit.
struct FileBudget {
    rlim_t limit = 0;          // of this process
    std::size_t hosts = 0;     // that are reached over the network
    std::size_t programs = 0;  // how many of them through a program, and not a socket of our own
};

/// How many hosts may be on their way at a time, so that there is room for what a start opens
/// besides and for the connections that stand; at least one.
[[nodiscard]] std::size_t starts_at_a_time(const FileBudget& budget);

/// Refuses more connections than the limit has room for. `what` are the programs: "ssh".
[[nodiscard]] Status check_room(const FileBudget& budget, const std::string& what);

}  // namespace hvd::launch
