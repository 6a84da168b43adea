// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <csignal>

namespace hvd::launch::agent {

/// The signals that ask for an end.
inline constexpr std::array kStopSignals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
[[nodiscard]] constexpr bool is_stop_signal(int number) noexcept {
    return std::ranges::find(kStopSignals, number) != kStopSignals.end();
}

/// As long as it lives, signals that ask for an end are obeyed also in a process that is the first
/// of its PID namespace (the entry point of a container): the kernel drops those that such a one
/// has no handler for. In any other process it does nothing.
class FirstProcess final {
public:
    FirstProcess() noexcept;
    ~FirstProcess();
    FirstProcess(const FirstProcess&) = delete;
    FirstProcess& operator=(const FirstProcess&) = delete;

private:
    bool is_first_;
    std::array<struct sigaction, kStopSignals.size()> before_{};
};

}  // namespace hvd::launch::agent
