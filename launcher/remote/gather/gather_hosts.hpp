// SPDX-License-Identifier: Apache-2.0
//
// The hosts of a job before their agents are linked. Those whose agents connect to horovodrun by
// themselves are waited for here.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/signals.hpp"
#include "launcher/output/say.hpp"
#include "launcher/remote/gathered.hpp"

#include <vector>

namespace hvd::launch {

class IoThread;

/// Tells which of the request's hosts are this machine. For --jsrun this machine is one in any
/// case, the last and without slots: jsrun has to be started here. Errors: as of place_hosts.
[[nodiscard]] Result<std::vector<PlacedHost>> choose_hosts(const LaunchRequest& request);

/// Chooses the hosts, and waits for those that connect. In a Slurm allocation srun starts their
/// agents. Errors: invalid_argument; unavailable; timed_out at the deadline (--start-timeout), with
/// the hosts that are missing; aborted, when a signal came, which is then in `stop_signal`.
[[nodiscard]] Result<Gathered> gather_hosts(IoThread& io,
                                            const BlockedSignals& signals,
                                            const LaunchRequest& request,
                                            Deadline deadline,
                                            int& stop_signal,
                                            const Say& say);

}  // namespace hvd::launch
