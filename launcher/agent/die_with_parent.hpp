// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <sys/types.h>

namespace hvd::launch::agent {

/// Takes care that this process, and what it executes, is killed when its parent dies. Returns 0 or
/// an errno; ECHILD when the parent is gone already.
///
/// The kernel's parent-death signal comes at the end of the *thread* that forked. Open MPI's daemon
/// forks more than 32 ranks from threads that end once all are started. Where it was not the main
/// thread, a process that holds nothing of ours watches both instead.
[[nodiscard]] int die_with_parent();

/// Whether `pid` stands in the text of /proc/PARENT/task/TID/children.
[[nodiscard]] bool lists_child(std::string_view children, pid_t pid);

}  // namespace hvd::launch::agent
