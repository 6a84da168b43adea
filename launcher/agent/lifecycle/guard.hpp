// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/wire/encryption.hpp"

#include <optional>

namespace hvd::launch::agent {

/// Becomes the guard of an agent that talks to its launcher over the two descriptors, and ends with
/// its exit code when nothing of the job is left. Call it first in a program without threads.
/// Returns the exit code where no agent could be started, and in an agent that failed.
///
/// The guard is a subreaper, closes the standard streams and only waits. When the agent dies, all
/// that lived below it becomes the guard's and is killed. What a terminal sends reaches horovodrun
/// alone: guard and agent belong to the session that the program leads already, or each leads a new
/// one.
///
/// An agent that has `joined` by itself, with the encryption of its stream, belongs to the terminal
/// or container that started it: no new session, and standard error stays open for its last words.
/// In a Slurm step the ranks get what Slurm sends without our help.
[[nodiscard]] int run_guarded_agent(int from_launcher,
                                    int to_launcher,
                                    std::optional<wire::Encryption> joined = std::nullopt,
                                    bool is_slurm_step = false);

}  // namespace hvd::launch::agent
