// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <csignal>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::launch {

/// A program with a pipe at each standard stream, in a new session, so that Ctrl-C at our
/// terminal does not end it before its agent has ended the ranks.
struct ChildProcess {
    UniqueFd input;   // what we write it reads
    UniqueFd output;  // what it writes to standard output
    UniqueFd errors;  // and to standard error
    UniqueFd pidfd;
    pid_t pid = 0;
};

/// `argv[0]` is looked for in our own PATH. Without an `environment` it gets ours. Errors:
/// unavailable, with the name and the cause.
[[nodiscard]] Result<ChildProcess> spawn_child(const std::vector<std::string>& argv,
                                               const sigset_t& signal_mask,
                                               const Environment* environment = nullptr);

}  // namespace hvd::launch
