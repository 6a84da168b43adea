// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "collectives/rendezvous/tcp/authenticator.hpp"

#include <string_view>

namespace hvd::rt {

inline constexpr std::string_view kKeyFile = "HOROVOD_JOB_KEY_FILE";

/// HOROVOD_JOB_KEY_FILE where it is set; else munge under Slurm, and nothing under torchrun.
/// Errors: invalid_argument for a file that others may read, unavailable (with the remedies).
[[nodiscard]] Result<coll::store::Credentials> find_credentials(const Environment& environment,
                                                                const coll::ExternalLaunch& launch);

}  // namespace hvd::rt
