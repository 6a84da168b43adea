// SPDX-License-Identifier: Apache-2.0
//
// The spine of the launcher: calls the stations in the order in which a job passes through them.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/remote/factory.hpp"

#include <span>
#include <string>

namespace hvd::launch {

// The exit codes of horovodrun's own; launcher/README.md lists them all.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimeLimit = 124;
inline constexpr int kExitLauncherFailure = 125;
inline constexpr int kExitConsoleClosed = 141;

/// Begins what nearly every job needs before the command line is read: opens standard descriptors
/// that the caller had closed, and starts the agent of this machine where no argument speaks
/// against it. Wrong guesses cost time only. Called first of all, with main's own `argv`, which the
/// agent overwrites in its copy of the memory.
[[nodiscard]] EarlyAgentPtr make_head_start(std::span<char*> argv);

/// Runs the job to its end and returns horovodrun's exit code. What a person must know was printed
/// on standard error by then. Does not return, but ends the process with that code, when the
/// console is blocked for good.
[[nodiscard]] int run(const LaunchRequest& request, EarlyAgentPtr early_agent);

/// --join: finds the launcher and becomes hvd-agent, which joins it. Returns only when that fails,
/// with the exit code.
[[nodiscard]] int join(const JoinRequest& request);

/// Prints what was built and what was found (--check-build). Returns the exit code.
[[nodiscard]] int check_build(const CheckBuild& request);

/// Writes `text` to standard output. Returns the exit code: 0, or that of a closed output.
[[nodiscard]] int print_page(const std::string& text);

}  // namespace hvd::launch
