// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <csignal>

namespace hvd::launch::agent {

/// Whether a terminal sends this signal to a whole process group. Others are used by programs
/// between each other.
[[nodiscard]] inline bool is_for_group(int number) noexcept {
    constexpr std::array kTerminalSignals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                          SIGTSTP, SIGCONT, SIGKILL, SIGWINCH};
    return std::ranges::find(kTerminalSignals, number) != kTerminalSignals.end();
}

}  // namespace hvd::launch::agent
