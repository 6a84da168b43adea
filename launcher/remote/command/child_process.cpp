// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/command/child_process.hpp"

#include "collectives/base/pidfd.hpp"
#include "launcher/remote/pipe.hpp"
#include "launcher/remote/vfork_child.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {

Result<ChildProcess> spawn_child(const std::vector<std::string>& argv,
                                 const sigset_t& signal_mask,
                                 const Environment* environment) {
    HVD_TRY(auto input, make_pipe());
    HVD_TRY(auto output, make_pipe());
    HVD_TRY(auto errors, make_pipe());
    const std::array<int, 3> streams{input.read.get(), output.write.get(), errors.write.get()};
    HVD_TRY(const auto pid, spawn_by_vfork({.file = argv.front(),
                                            .argv = argv,
                                            .streams = streams,
                                            .signal_mask = signal_mask,
                                            .environment = environment}));
    // The child cannot be reaped before we do it, so its number is still its own.
    auto pidfd = open_pidfd(pid);
    if (!pidfd) {
        const int error = errno;
        (void)::kill(-pid, SIGKILL);
        (void)::waitpid(pid, nullptr, 0);
        return system_error("pidfd_open", error);
    }
    return ChildProcess{.input = std::move(input.write),
                        .output = std::move(output.read),
                        .errors = std::move(errors.read),
                        .pidfd = std::move(pidfd),
                        .pid = pid};
}

}  // namespace hvd::launch
