// SPDX-License-Identifier: Apache-2.0
//
// argv → LaunchRequest. Nothing after this reads argv, flags or the config file.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/model/requests.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hvd::launch {

/// The program should print `text` and stop with success (--help, --version).
struct PrintAndExit {
    std::string text;
};

/// The first words of command lines that run no job. A program of that name is started by
/// `horovodrun -- doctor`.
inline constexpr std::string_view kDoctor = "doctor";
inline constexpr std::string_view kTimeline = "timeline";

using Parsed = std::variant<LaunchRequest,
                            PrintAndExit,
                            CheckBuild,
                            Examine,
                            MergeTimelines,
                            JoinRequest,
                            RunTask,
                            RunLine>;

/// Reads the command line, and the config file it names. `environment` is horovodrun's own, for
/// HOROVOD_START_TIMEOUT; `columns` is the width of the terminal, for --help. Errors, with the
/// flag, the value and the remedy: invalid_argument for wrong usage, another code for what was
/// found in files and variables.
[[nodiscard]] Result<Parsed> parse_command_line(const std::vector<std::string>& arguments,
                                                const Environment& environment,
                                                std::size_t columns = 80);

}  // namespace hvd::launch
