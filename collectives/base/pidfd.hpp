// SPDX-License-Identifier: Apache-2.0
//
// Descriptors of processes, whose numbers may come again.
#pragma once

#include "collectives/base/unique_fd.hpp"

#include <optional>

#include <sys/types.h>

namespace hvd {

/// Close-on-exec; none where the process is gone or the kernel is older than Linux 5.3.
[[nodiscard]] UniqueFd open_pidfd(pid_t pid) noexcept;

/// How the process ended, as waitpid gives it, once its parent knows. Nothing before that, and on
/// kernels older than Linux 6.15.
[[nodiscard]] std::optional<int> exit_status(int pidfd) noexcept;

/// By the descriptor where there is one, so that the signal cannot reach another process.
bool send_signal_by(int pidfd, pid_t pid, int number) noexcept;

}  // namespace hvd
