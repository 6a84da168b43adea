// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::launch::agent {

/// Becomes the guard of an agent that talks to its launcher over the two descriptors, and returns
/// its exit code when nothing of the job is left. Call it first in a program without threads.
///
/// The guard is a subreaper and the leader of a session of its own (so that what a terminal sends
/// reaches horovodrun alone), closes the standard streams and only waits. When the agent dies, all
/// that lived below it becomes the guard's and is killed.
[[nodiscard]] int run_guarded_agent(int from_launcher, int to_launcher);

}  // namespace hvd::launch::agent
