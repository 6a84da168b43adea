// SPDX-License-Identifier: Apache-2.0
//
// Where the store server of several hosts is, under a launcher that tells its ranks one address.
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

inline constexpr std::string_view kServerHost = "MASTER_ADDR";

struct ServerPlan {
    std::string host;                  // of the server: a name or an address
    bool is_server = false;            // this rank serves
    std::vector<std::uint16_t> ports;  // in this order
    std::string job;                   // the same on all ranks, and in no other world

    friend bool operator==(const ServerPlan&, const ServerPlan&) = default;
};

/// Slurm: the first node of the step. Else MASTER_ADDR, where rank 0 is. Pure.
/// Errors: invalid_argument for a variable that is missing or malformed.
[[nodiscard]] Result<ServerPlan> plan_server(const Environment& environment,
                                             const coll::ExternalLaunch& launch,
                                             const coll::net::PortRange& allowed,
                                             int generation);

/// "h[02-04,7],k1" → "h02"; "a[1-2]b[3-4]" → "a1b3". Nothing if malformed.
[[nodiscard]] std::optional<std::string> first_host(std::string_view list);

}  // namespace hvd::rt
