// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_request.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace hvd::launch {

/// When a job has to end, and what says so, as a sentence for the time when it has come.
struct TimeLimit {
    std::chrono::milliseconds left{};
    std::string words;
};

/// --timeout, or the end of the allocation (in seconds of Unix time) where that is sooner. An end
/// that has passed already is the batch system's to judge, and one more than a year ahead is none.
/// Pure.
[[nodiscard]] std::optional<TimeLimit> time_limit(const Limits& limits,
                                                  std::chrono::system_clock::time_point now);

}  // namespace hvd::launch
