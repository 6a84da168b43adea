// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/processes/spawner.hpp"
#include "launcher/wire/encryption.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The kernel sends it to the agent when the guard has died.
inline constexpr int kGuardDiedSignal = SIGUSR2;

/// The agent sends it to the guard when the lease on its board begins, or is another.
inline constexpr int kLeaseSignal = SIGUSR1;

class SharedLease;

struct AgentSetup {
    int from_launcher = -1;
    int to_launcher = -1;
    pid_t guard = 0;  // our parent
    SharedLease* shared_lease = nullptr;
    std::string cgroup_name{};  // for that of the ranks (JobCgroup)
    Inheritance given;

    /// It has dialled its launcher: the stream is encrypted, and the exit code is the job's.
    std::optional<wire::Encryption> joined{};

    /// It is a task of a Slurm step, as are its ranks.
    bool is_slurm_step = false;
};

/// To a person, on standard error: what cannot be told to the launcher.
void print_error(std::string_view text) noexcept;

/// One session with a launcher, from Hello to AllGone. All signals are blocked by the caller.
/// Returns the exit code.
[[nodiscard]] int run_agent(const AgentSetup& setup);

}  // namespace hvd::launch::agent
