// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/descriptors.hpp"
#include "launcher/remote/command/child_process.hpp"

#include <functional>
#include <string>

#include <sys/types.h>

namespace hvd::launch {

/// A ChildProcess on the io thread. Who has it ends it and reaps it.
struct ChildStreams {
    ChildStreams(IoThread& io, ChildProcess child);

    /// Calls `ended` with its wait status, once, when it has ended; it is reaped then.
    void when_ended(std::function<void(int wait_status)> ended);

    PipeWriter input;
    PipeReader output;
    PipeReader errors;
    ReadableWatch process;
    pid_t pid;
};

/// "was killed by SIGTERM", "ended with status 1".
[[nodiscard]] std::string describe_exit(int wait_status);

}  // namespace hvd::launch
