// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of several hosts find each other under a launcher that tells them one address.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "collectives/transport/tcp/address.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::rt {

inline constexpr std::string_view kMeetingHost = "MASTER_ADDR";

struct MeetingPlan {
    std::string host;                  // name or address of where the meeting point is
    bool is_keeper = false;            // this rank keeps it
    std::vector<std::uint16_t> ports;  // in this order
    std::string job;                   // the same on all ranks, and in no other world

    friend bool operator==(const MeetingPlan&, const MeetingPlan&) = default;
};

/// Slurm: the first node of the step. Else MASTER_ADDR, where rank 0 is. Pure.
/// Errors: invalid_argument for a variable that is missing or malformed.
[[nodiscard]] Result<MeetingPlan> plan_meeting(const Environment& environment,
                                               const coll::ExternalLaunch& launch,
                                               const coll::net::PortRange& allowed,
                                               int generation);

/// "h[02-04,7],k1" → "h02"; "a[1-2]b[3-4]" → "a1b3". Nothing if malformed.
[[nodiscard]] std::optional<std::string> first_host(std::string_view list);

}  // namespace hvd::rt
