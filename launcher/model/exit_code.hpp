// SPDX-License-Identifier: Apache-2.0
//
// The exit codes of horovodrun's own; launcher/README.md lists when each is given.
#pragma once

#include <cerrno>

namespace hvd::launch {

inline constexpr int kExitUnwell = 1;  // the doctor has found something wrong
inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimeLimit = 124;
inline constexpr int kExitLauncherFailure = 125;
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitConsoleClosed = 141;

/// That of a process which a signal ended, as shells give it.
[[nodiscard]] constexpr int exit_code_of_signal(int signal) noexcept {
    return 128 + signal;
}

/// That of a command that could not be executed, by its errno, as shells give it.
[[nodiscard]] constexpr int exit_code_of_exec(int error_number) noexcept {
    return error_number == ENOENT || error_number == ENOTDIR ? kExitNotFound : kExitCannotExecute;
}

}  // namespace hvd::launch
