// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/transport/tcp/address.hpp"

#include <string>

namespace hvd::coll::net {

/// How this host and another one reach each other.
struct HostRoute {
    std::string host;    // the other
    HostAddress here{};  // interface and address of this host
    IpAddress there{};
    bool is_reported_here = false;  // of the two hosts this one has the lowest rank
};

}  // namespace hvd::coll::net
