// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/report/job_report.hpp"
#include "launcher/supervise/job_runner.hpp"

namespace hvd::launch {

/// Runs a plan to its end and writes down what belongs to it: the file that jsrun reads,
/// environments, clocks, the report. Gives the exit code. Errors: unavailable and
/// invalid_argument, before any rank has started.
[[nodiscard]] Result<int> run_plan(AgentFleet& fleet,
                                   JobRunner& runner,
                                   const RunStart& start,
                                   const LaunchPlan& plan,
                                   JobReport& report);

}  // namespace hvd::launch
