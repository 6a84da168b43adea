// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace hvd::launch {

/// Raises this process's soft limit of open files to the hard one. Gives what it then is.
[[nodiscard]] rlim_t raise_open_files();

/// Puts it back to what it was before. For a child between vfork and exec: it only calls the
/// kernel.
void restore_open_files() noexcept;

}  // namespace hvd::launch
