// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"
#include "launcher/model/job_result.hpp"
#include "launcher/wire/messages.hpp"

#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// A problem that would keep the ranks of a host from running.
struct HostProblem {
    std::string host;
    wire::Problem problem;
};

/// The end of a job of which no rank was started.
struct StartFailure {
    std::vector<std::string> words;  // as printed; the last one is the reason
    JobResult result;
};

/// The exit code is decided here and nowhere else: a wrong command line or plan gives 2, a time
/// limit 124, `stop_signal` 128 more than its number, all else 125. Pure.
[[nodiscard]] int exit_code_of(const Error& error, int stop_signal);

/// Of a start that `error` has ended. `failures` are those of its hosts.
[[nodiscard]] StartFailure failed_start(const Error& error,
                                        int stop_signal,
                                        std::vector<HostResult> failures = {});

/// Hosts that cannot run their ranks. All problems are printed; the first is the reason, gives the
/// exit code and is printed last, as with hosts that cannot be reached. There is one at least.
[[nodiscard]] StartFailure failed_preflight(std::span<const HostProblem> problems);

}  // namespace hvd::launch
