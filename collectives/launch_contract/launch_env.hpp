// SPDX-License-Identifier: Apache-2.0
//
// The contract between a launcher and a rank, in one file: the launcher encodes it into the
// environment, the runtime decodes it.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/topology.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace hvd::coll {

inline constexpr std::chrono::seconds kDefaultLease{30};

/// All that a rank of horovodrun knows when it starts. No field is secret: a process of another
/// user can read none of it, and a process of the same user gains nothing by it.
struct LaunchContract {
    Topology topology;
    std::string hostname;
    std::string job_id;        // 32 hexadecimal digits, the same on all ranks
    std::string agent_socket;  // abstract Unix socket of this host's agent, without the leading NUL
    std::chrono::seconds lease = kDefaultLease;  // a host that is silent for so long is lost
    bool may_shrink = false;  // ranks go on without those that have ended: --on-failure wait

    friend bool operator==(const LaunchContract&, const LaunchContract&) = default;
};

// The variables, as users and other programs see them.
inline constexpr std::string_view kEnvRank = "HOROVOD_RANK";
inline constexpr std::string_view kEnvSize = "HOROVOD_SIZE";
inline constexpr std::string_view kEnvLocalRank = "HOROVOD_LOCAL_RANK";
inline constexpr std::string_view kEnvLocalSize = "HOROVOD_LOCAL_SIZE";
inline constexpr std::string_view kEnvCrossRank = "HOROVOD_CROSS_RANK";
inline constexpr std::string_view kEnvCrossSize = "HOROVOD_CROSS_SIZE";
inline constexpr std::string_view kEnvHostname = "HOROVOD_HOSTNAME";
inline constexpr std::string_view kEnvJobId = "HOROVOD_JOB_ID";
inline constexpr std::string_view kEnvAgentSocket = "HOROVOD_AGENT_SOCKET";

/// To horovodrun alone: the number of a stream socket to the program that called horovod.run.
inline constexpr std::string_view kEnvCaller = "HOROVOD_CALLER_FD";
inline constexpr std::string_view kEnvLease = "HOROVOD_LEASE";  // seconds; unset: the default

/// "wait" where the ranks may form another world without those that have ended.
inline constexpr std::string_view kEnvOnFailure = "HOROVOD_ON_FAILURE";

/// Set where a horovodrun stands in front of one task of another launcher: the variables above
/// repeat what that launcher tells, and that launcher's own variables count.
inline constexpr std::string_view kEnvTaskOf = "HOROVOD_TASK_OF";

/// Set for each rank by the process that executes its command: see launcher_record.hpp.
inline constexpr std::string_view kEnvLauncherVariables = "HOROVOD_LAUNCHER_VARIABLES";

/// Whether it is one of the variables by which horovodrun tells a rank that it is one. Nobody else
/// may set these.
[[nodiscard]] bool is_of_contract(std::string_view name) noexcept;

/// The variables for one rank.
[[nodiscard]] Environment encode(const LaunchContract& contract);

// The same in three parts, for a launcher of many ranks: what all ranks of a job have, what all
// ranks of a host have, and the rest.
[[nodiscard]] Environment encode_for_job(const LaunchContract& contract);
[[nodiscard]] Environment encode_for_host(const LaunchContract& contract);
[[nodiscard]] Environment encode_for_rank(const Topology& topology);

/// Whether horovodrun has started this rank: HOROVOD_AGENT_SOCKET is set, or HOROVOD_RANK
/// without HOROVOD_TASK_OF.
[[nodiscard]] bool has_launch_contract(const Environment& environment);

/// Errors: invalid_argument that lists what is missing or impossible, with all the values.
[[nodiscard]] Result<LaunchContract> decode_launch_contract(const Environment& environment);

}  // namespace hvd::coll
