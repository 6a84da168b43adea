// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/wire/join.hpp"

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace hvd::launch::agent {

/// A literal address with its port.
struct JoinAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
    std::string text;  // "10.0.0.1:4000", "[fd00::1%eth0]:4000"
};

/// What `hvd-agent --join` is asked to do.
struct JoinOptions {
    std::vector<JoinAddress> addresses;  // of one launcher, tried in turn
    std::string name;                    // of this host in the job; empty: its hostname
    int slots = 0;                       // 0: as many as the host has
    std::string token_file;              // empty: standard input
    bool is_slurm_step = false;          // srun started us, as one task on each node
    std::string own_file;  // ours, which is to be removed with its folder; empty: none
    std::chrono::milliseconds timeout{600'000};  // until the launcher must have accepted
};

/// Reads the arguments `--join ADDRESS:PORT` (may be repeated), `--join-name NAME`, `--join-slots
/// N`, `--join-token-file FILE`, `--start-timeout SECONDS`, `--join-step slurm`, `--join-unlink
/// FILE`. Errors: invalid_argument.
[[nodiscard]] Result<JoinOptions> parse_join_options(std::span<const std::string_view> arguments);

/// The first line of `options.token_file`, or of standard input, which somebody must write until
/// then. Errors: invalid_argument, timed_out.
[[nodiscard]] Result<wire::Key> read_token(const JoinOptions& options, Deadline deadline);

/// Joins and becomes the guarded agent of that launcher. Returns its exit code: the job's, or 2 for
/// a token that cannot be used, 124 when the time was over, 125 when the launcher did not want us
/// or has gone. Says in one line on standard error what happened. Call it in a program without
/// threads.
[[nodiscard]] int run_joined_agent(const JoinOptions& options);

}  // namespace hvd::launch::agent
