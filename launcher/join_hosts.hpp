// SPDX-License-Identifier: Apache-2.0
//
// Hosts whose agents dial us: by hand (both ends of it in horovodrun), or started by srun.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/hosts/this_machine.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/remote/starter.hpp"
#include "launcher/say.hpp"
#include "launcher/supervise/signals.hpp"

#include <memory>
#include <vector>

namespace hvd::launch {

class IoThread;

/// The hosts of a job, now that all that were waited for are there.
struct Gathered {
    std::vector<PlacedHost> placed;
    std::unique_ptr<Starter> starter;  // of those that are not here
};

/// With --listen: waits until every host of `placed` that is not this machine has joined, or, where
/// the user named none, as many as he wants. In a Slurm allocation: has srun start agents, as
/// gather_slurm_nodes says. Else gives `placed`, and no starter. Errors: invalid_argument;
/// timed_out, with who is missing; aborted, when a signal came, which is then in `stop_signal`.
[[nodiscard]] Result<Gathered> gather_hosts(IoThread& io,
                                            const BlockedSignals& signals,
                                            const LaunchRequest& request,
                                            const std::vector<PlacedHost>& placed,
                                            int& stop_signal,
                                            const Say& say);

}  // namespace hvd::launch
