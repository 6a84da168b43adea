// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/output/say.hpp"
#include "launcher/timeline/clock_history.hpp"
#include "launcher/timeline/host_clocks.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace hvd::launch {

/// Keeps `hosts.json` in the folder of --timeline-all: the offsets of the hosts' clocks, for
/// `horovodrun timeline`. It is written soon after the start, ever more rarely while the job runs,
/// and at the end, on a separate thread, since a folder may hang.
///
/// Thread: io. A folder that cannot be written harms no job.
class ClockRecorder final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// Before the plan runs; fleet and plan outlive the recorder, which outlives the run. Null
    /// where the ranks write no traces, or where one host has them all.
    [[nodiscard]] static std::unique_ptr<ClockRecorder> watch(AgentFleet& fleet,
                                                              const LaunchPlan& plan);

    ClockRecorder(const LaunchPlan& plan, std::filesystem::path file);
    ~ClockRecorder();
    ClockRecorder(const ClockRecorder&) = delete;
    ClockRecorder& operator=(const ClockRecorder&) = delete;

    /// The host, as the plan counts, has answered.
    void add(std::size_t host, const ClockOffset::Sample& sample, TimePoint now);

    /// Writes what is known. Waits as long as the folder takes. `say` tells why it could not.
    void finish(const Say& say);

private:
    [[nodiscard]] std::string text() const;
    void hand_over();
    void write(const std::stop_token& stop);

    const LaunchPlan& plan_;
    std::filesystem::path file_;
    std::vector<ClockHistory> histories_;  // by host
    std::optional<TimePoint> next_write_;
    std::chrono::milliseconds pause_;  // after the next write

    std::mutex mutex_;
    std::condition_variable_any filled_;
    std::optional<std::string> text_;  // guarded by mutex_; the newest, to be written
    std::optional<Error> error_;       // guarded by mutex_; of the last write
    std::jthread writer_;
};

}  // namespace hvd::launch
