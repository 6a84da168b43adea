// SPDX-License-Identifier: Apache-2.0
//
// --listen: the launcher's side of hosts that join.
#pragma once

#include "collectives/base/deadline.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/signals.hpp"
#include "launcher/output/say.hpp"
#include "launcher/remote/gathered.hpp"

#include <vector>

namespace hvd::launch {

class IoThread;

/// The limits of a wait for hosts, and its messages.
struct JoinWait {
    Deadline deadline;
    const Say& say;
    int& stop_signal;  // that came meanwhile
};

/// Waits until every host of `placed` that is not this machine has joined, or, where the user named
/// none, as many as he wants. Errors: as of gather_hosts.
[[nodiscard]] Result<Gathered> gather_joined_hosts(IoThread& io,
                                                   const BlockedSignals& signals,
                                                   const LaunchRequest& request,
                                                   const std::vector<PlacedHost>& placed,
                                                   JoinWait wait);

}  // namespace hvd::launch
