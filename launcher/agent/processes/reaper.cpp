// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/reaper.hpp"

#include <cerrno>
#include <chrono>

#include <sys/resource.h>
#include <sys/wait.h>

namespace hvd::launch::agent {
namespace {

constexpr auto kReapTime = std::chrono::milliseconds(20);
constexpr std::uint64_t kRssUnit = 1024;  // ru_maxrss is in KiB

}  // namespace

Children reap_children(const std::function<void(const EndedChild&)>& on_end) {
    const auto until = std::chrono::steady_clock::now() + kReapTime;
    do {
        int status = 0;
        rusage usage{};
        const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
        if (pid == 0) {
            return Children::alive;
        }
        if (pid < 0 && errno != EINTR) {
            return Children::none;
        }
        if (pid > 0) {
            on_end({.pid = pid,
                    .wait_status = status,
                    .max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * kRssUnit});
        }
    } while (std::chrono::steady_clock::now() < until);
    return Children::ended;
}

}  // namespace hvd::launch::agent
