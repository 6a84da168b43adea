// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/command/child_streams.hpp"

#include "collectives/base/text.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/wait.h>

namespace hvd::launch {

ChildStreams::ChildStreams(IoThread& io, ChildProcess child)
    : input(io, std::move(child.input)),
      output(io, std::move(child.output)),
      errors(io, std::move(child.errors)),
      process(io, std::move(child.pidfd)),
      pid(child.pid) {}

void ChildStreams::when_ended(std::function<void(int wait_status)> ended) {
    process.wait([this, ended = std::move(ended)]() mutable {
        int status = 0;
        pid_t reaped = 0;
        do {
            reaped = ::waitpid(pid, &status, WNOHANG);
        } while (reaped < 0 && errno == EINTR);
        if (reaped == 0) {
            when_ended(std::move(ended));
        } else {
            ended(status);
        }
    });
}

std::string describe_exit(int wait_status) {
    if (WIFSIGNALED(wait_status)) {
        return "was killed by " + signal_name(WTERMSIG(wait_status));
    }
    return "ended with status " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace hvd::launch
