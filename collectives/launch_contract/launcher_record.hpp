// SPDX-License-Identifier: Apache-2.0
//
// Tells a rank of horovodrun from a task of another launcher that the rank has started: both have
// the rank's variables. horovodrun records which launchers' variables it leaves to a rank
// (those of an mpirun around it, its own RANK); what differs from that record was set by a launcher
// inside of the rank.
#pragma once

#include "collectives/base/env.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::coll {

/// The record of a rank with these variables, for kEnvLauncherVariables: "NAME=VALUE;NAME=VALUE",
/// values as in a URL. `pmi_server` is that of find_pmi_server.
[[nodiscard]] std::string record_launcher_variables(
    const std::function<std::optional<std::string>(std::string_view name)>& find_variable,
    std::optional<pid_t> pmi_server = {});

/// The environment as the innermost launcher made it. In a task of a launcher that a rank of
/// horovodrun has started: without what horovodrun had left to that rank, its contract included, so
/// that nobody takes the task for the rank. Else unchanged. Where HOROVOD_LAUNCHER names a
/// launcher, its variables stay, too. Pure.
[[nodiscard]] Environment innermost_environment(Environment environment,
                                                std::optional<pid_t> pmi_server = {});

/// The same of this process's environment.
[[nodiscard]] Environment current_innermost_environment();

}  // namespace hvd::coll
