// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <csignal>

namespace hvd::launch::agent {

/// The signals that ask a process to end.
inline constexpr std::array kStopSignals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
[[nodiscard]] constexpr bool is_stop_signal(int number) noexcept {
    return std::ranges::find(kStopSignals, number) != kStopSignals.end();
}

/// Whether a terminal sends this signal to a whole process group. Others are used by programs
/// between each other.
[[nodiscard]] inline bool is_for_group(int number) noexcept {
    constexpr std::array kTerminalSignals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                          SIGTSTP, SIGCONT, SIGKILL, SIGWINCH};
    return std::ranges::find(kTerminalSignals, number) != kTerminalSignals.end();
}

}  // namespace hvd::launch::agent
