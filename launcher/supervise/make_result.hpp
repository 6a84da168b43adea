// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_plan.hpp"
#include "launcher/supervise/job_record.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/stderr_tail.hpp"

#include <string>
#include <vector>

namespace hvd::launch {

/// Everything that was seen of a job.
struct Seen {
    const LaunchPlan& plan;
    const JobRecord& record;
    const std::vector<StderrTail>& tails;  // indexed by rank
    std::vector<HostResult> hosts{};
    std::vector<HostSurvivor> survivors{};
    std::vector<UnsweptHost> unswept{};
    std::vector<std::string> warnings{};
    double seconds = 0;
    std::string time_limit{};  // as printed: the limit that ends a job that takes too long
};

/// Judges it and puts the parts of the result together.
[[nodiscard]] JobResult make_result(Seen seen);

}  // namespace hvd::launch
