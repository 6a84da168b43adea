// SPDX-License-Identifier: Apache-2.0
//
// HOROVOD_LAUNCHER: the launcher whose variables tell a process which rank it is. horovodrun and
// the runtime must see it the same way.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"

#include <array>
#include <string>
#include <string_view>

namespace hvd::coll {

inline constexpr std::string_view kEnvLauncher = "HOROVOD_LAUNCHER";

/// The launchers that can be named; the last stands for no launcher's variables.
inline constexpr std::array<std::string_view, 8> kLauncherNames{
    "ompi", "pmix", "pmi", "torchrun", "flux", "jsrun", "slurm", "none"};

/// The name that the user gives, or "". Errors: invalid_argument for any other one.
[[nodiscard]] Result<std::string> chosen_launcher(const Environment& environment);

/// The number in a launcher's variable. Errors: invalid_argument, also where it is not set.
[[nodiscard]] Result<int> read_number(const Environment& environment,
                                      std::string_view name,
                                      int least);

}  // namespace hvd::coll
