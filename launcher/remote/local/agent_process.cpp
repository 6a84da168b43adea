// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/local/agent_process.hpp"

#include "collectives/base/pidfd.hpp"
#include "launcher/remote/agent_file.hpp"
#include "launcher/remote/pipe.hpp"
#include "launcher/remote/vfork_child.hpp"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr int kPipeBytes = 1 << 20;

struct Pipes {
    Pipe to_agent;
    Pipe from_agent;
};

Result<Pipes> make_pipes() {
    HVD_TRY(auto to_agent, make_pipe());
    HVD_TRY(auto from_agent, make_pipe());
    // More output per read; an unprivileged user may be refused, which only costs speed.
    (void)::fcntl(from_agent.read.get(), F_SETPIPE_SZ, kPipeBytes);
    return Pipes{.to_agent = std::move(to_agent), .from_agent = std::move(from_agent)};
}

Result<AgentProcess> parent_side(Pipes pipes, pid_t pid) {
    // The child cannot be reaped before we do it, so its number is still its own.
    auto pidfd = open_pidfd(pid);
    if (!pidfd) {
        return system_error("pidfd_open", errno);
    }
    return AgentProcess{.to_agent = std::move(pipes.to_agent.write),
                        .from_agent = std::move(pipes.from_agent.read),
                        .pidfd = std::move(pidfd),
                        .pid = pid};
}

}  // namespace

Result<AgentProcess> spawn_agent(const StarterContext& context) {
    auto found = find_agent_file(context);
    if (!found) {
        return std::move(found).error().context("cannot start the agent on this machine");
    }
    const auto path = std::move(found).value();
    HVD_TRY(auto pipes, make_pipes());
    const std::array<int, 2> streams{pipes.to_agent.read.get(), pipes.from_agent.write.get()};
    HVD_TRY(const auto pid, spawn_by_vfork({.file = path,
                                            .argv = {"hvd-agent"},
                                            .streams = streams,
                                            .signal_mask = context.signal_mask}));
    return parent_side(std::move(pipes), pid);
}

}  // namespace hvd::launch
