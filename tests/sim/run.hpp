// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/planner.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/start_failure.hpp"
#include "tests/sim/script.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hvd::sim {

/// The result of a simulated job, and the complaints about it.
struct Outcome {
    std::optional<launch::JobResult> result;    // nothing where no rank was started
    std::optional<launch::StartFailure> start;  // then
    std::string start_error;                    // the last of its words
    std::vector<std::string> start_words;       // the others, of the hosts that failed
    std::vector<launch::PlanHost> hosts;        // as the planner would take them
    std::string said;                           // by horovodrun, on the console
    std::chrono::milliseconds last_start{0};    // when the last host was told to start, since begin
    std::chrono::milliseconds lasted{0};
    std::vector<std::string> complaints;  // orphans, false successes, hangs, wrong verdicts
};

/// Runs the real JobStart and JobRunner over it.
[[nodiscard]] Outcome run(const Script& script, Policy policy = {});

/// The same, with a plan of the caller's (of the script's ranks, host by host).
[[nodiscard]] Outcome run(const Script& script, const launch::LaunchPlan& plan, Policy policy = {});

/// The plan of the script's ranks.
[[nodiscard]] launch::LaunchPlan plan_of(const Script& script);

}  // namespace hvd::sim
