// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/job_result.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/supervise/host_ends.hpp"
#include "launcher/supervise/job_machine.hpp"
#include "launcher/supervise/rank_streams.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace hvd::launch {

class IoThread;

/// The time that the console still has once a user or a time limit has ended the job.
inline constexpr auto kDrainTimeout = std::chrono::seconds(10);

/// The end of a job, once its ranks have ended: all that they wrote, the end of the agents, the
/// result and its last words. Then it stops the loop.
///
/// Thread: io.
class JobEnd {
public:
    /// All outlive this object; the job begins now.
    struct Context {
        IoThread& io;
        AgentFleet& fleet;
        const LaunchPlan& plan;
        const JobMachine& machine;
        RankStreams& streams;
        HostEnds& hosts;
        std::string time_limit;  // in words, where there is one
    };

    explicit JobEnd(Context context);

    [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }

    /// No rank runs any more.
    void begin();

    /// Something has come to an end for which this waits.
    void go_on();

    /// A host does not start the ranks: the result, whatever else is known.
    void refuse(JobResult result) { refusal_ = std::move(result); }

    /// Once the loop has been stopped.
    [[nodiscard]] JobResult take_result() { return *std::move(result_); }

private:
    void close_fleet();
    [[nodiscard]] JobResult make_result();

    Context context_;
    std::chrono::steady_clock::time_point started_at_;
    bool has_begun_ = false;
    bool has_given_up_agents_ = false;
    Timer timer_;
    std::optional<JobResult> refusal_;
    std::optional<JobResult> result_;
};

}  // namespace hvd::launch
