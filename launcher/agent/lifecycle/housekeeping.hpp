// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/lifecycle/build_cache.hpp"
#include "launcher/agent/processes/job_cgroup.hpp"
#include "launcher/agent/ranks/oom_watch.hpp"

#include <chrono>
#include <optional>

namespace hvd::launch::agent {

/// Work that may wait until ranks have started, and the shortest jobs are over: old builds of the
/// agent and cgroups of jobs that are gone are removed, and the kernel's log is opened.
class Housekeeping final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    void start() {
        oom_.start();
        build_.start();
    }

    void ranks_start(TimePoint now) { due_ = now + kAfter; }
    void time_passed(TimePoint now, const std::optional<JobCgroup>& cgroup);
    [[nodiscard]] std::optional<TimePoint> deadline() const noexcept { return due_; }

    [[nodiscard]] OomWatch& oom() noexcept { return oom_; }
    [[nodiscard]] OwnBuild& build() noexcept { return build_; }

private:
    static constexpr auto kAfter = std::chrono::milliseconds(50);

    OomWatch oom_;
    OwnBuild build_;
    std::optional<TimePoint> due_;
};

}  // namespace hvd::launch::agent
