// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/activity.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// 0 tells most.
std::size_t place_of(char state) {
    constexpr std::string_view kOrder = "TtRDS";
    return std::min(kOrder.find(state), kOrder.size());
}

std::chrono::milliseconds cpu_time_of(std::span<const Process> tree) {
    constexpr std::uint64_t kSecond = 1000;
    std::uint64_t ticks = 0;
    for (const auto& process : tree) {
        ticks += process.cpu_ticks;
    }
    const auto rate = static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
    return std::chrono::milliseconds(ticks * kSecond / rate);
}

}  // namespace

const Process& most_telling(std::span<const Process> tree) {
    return *std::ranges::min_element(tree, [](const Process& one, const Process& other) {
        return std::tuple(place_of(one.state), other.cpu_ticks, other.start_time) <
               std::tuple(place_of(other.state), one.cpu_ticks, one.start_time);
    });
}

std::optional<Activity> activity_of(pid_t pid, std::span<const Process> processes) {
    const auto process = std::ranges::find(processes, pid, &Process::pid);
    if (process == processes.end()) {
        return std::nullopt;
    }
    auto tree = descendants(processes, pid);
    tree.insert(tree.begin(), *process);
    const auto& telling = most_telling(tree);
    return Activity{.state = telling.state,
                    .wait_channel = wait_channel(telling.pid),
                    .cpu_time = cpu_time_of(tree)};
}

}  // namespace hvd::launch::agent
