// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <sys/types.h>

namespace hvd::launch::agent {

/// Whether the kernel's parent-death signal comes when this process's parent dies, and not before:
/// it comes at the end of the *thread* that forked. Open MPI's daemon forks more than 32 ranks from
/// threads that end once all are started. Unknown counts as no: a signal that comes too early ends
/// a healthy rank.
[[nodiscard]] bool is_signalled_in_time(pid_t parent);

/// Arms it. Returns 0 or an errno; ECHILD when `parent` is our parent no more.
[[nodiscard]] int arm_death_signal(pid_t parent);

/// Has this process, and the program that it executes, killed when its parent dies. Returns 0 or
/// an errno; ECHILD when the parent is gone already.
///
/// Where the kernel's signal would come too early, a process without open files watches both
/// instead. A rank that has an agent is watched by the agent (see ShimClaim).
[[nodiscard]] int die_with_parent();

/// Whether `pid` stands in the text of /proc/PARENT/task/TID/children.
[[nodiscard]] bool lists_child(std::string_view children, pid_t pid);

}  // namespace hvd::launch::agent
