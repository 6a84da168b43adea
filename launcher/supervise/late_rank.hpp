// SPDX-License-Identifier: Apache-2.0
//
// Words about a rank for which others have waited in hvd.init(). Pure.
#pragma once

#include "launcher/supervise/job_record.hpp"

#include <string>

namespace hvd::launch {

/// Whether others have given up hvd.init() because this rank had not come to it.
[[nodiscard]] bool is_late_to_init(const RankRecord& rank);

/// Its activity when they gave up: "sleeps (hrtimer_nanosleep), 40 ms of CPU time in 31.2 s".
[[nodiscard]] std::string describe_activity(const RankRecord& rank);

/// "has not called hvd.init() within 30 s (HOROVOD_START_TIMEOUT); it sleeps ...".
[[nodiscard]] std::string describe_lateness(const RankRecord& rank);

}  // namespace hvd::launch
