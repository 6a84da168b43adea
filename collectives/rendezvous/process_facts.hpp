// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/rendezvous/local_group.hpp"

#include <optional>
#include <string_view>

#include <sys/types.h>

namespace hvd::coll {

/// The parent's pid from the text of /proc/PID/stat, whatever the program is called.
[[nodiscard]] std::optional<pid_t> parent_from_stat(std::string_view stat);

/// Whether `ancestor` started `pid`, directly or through others. False where /proc does not tell.
[[nodiscard]] bool is_ancestor(pid_t ancestor, pid_t pid);

/// The process that identifies the job where there is no key.
[[nodiscard]] pid_t launcher_of(const LocalMeeting& meeting);

}  // namespace hvd::coll
