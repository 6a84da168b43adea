// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a Slurm allocation, whose agents srun starts.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/signals.hpp"
#include "launcher/output/say.hpp"
#include "launcher/remote/gathered.hpp"

#include <cstdint>

namespace hvd::launch {

class IoThread;

/// Whether a node whose agent does not connect ends the job or is left out of it.
enum class Missing : std::uint8_t { fail, stay_out };

struct SlurmOptions {
    Missing missing = Missing::fail;
    Say say = say_on_stderr;  // what people should know before there is a job, also of srun's words
};

/// One srun, or one for each component of a heterogeneous job, starts an agent on each node of
/// `request.hosts.slurm_job`, also on ours: ranks belong to a step then, which is what Slurm
/// counts, confines to its GPUs and CPUs, and signals. Waits until all have connected. Errors:
/// unavailable and timed_out, with srun's messages and the missing nodes; aborted after a signal,
/// which is then in `stop_signal`. With Missing::stay_out only the last of these: the starter
/// then has the reason for each missing node.
[[nodiscard]] Result<Gathered> gather_slurm_nodes(IoThread& io,
                                                  const BlockedSignals& signals,
                                                  const LaunchRequest& request,
                                                  Deadline deadline,
                                                  int& stop_signal,
                                                  const SlurmOptions& options);

}  // namespace hvd::launch
