// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/local/agent_process.hpp"

#include "launcher/agent/guard.hpp"
#include "launcher/remote/agent_file.hpp"
#include "launcher/remote/pipe.hpp"
#include "launcher/remote/vfork_child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr int kPipeBytes = 1 << 20;
constexpr int kUnusedAgentPatienceMs = 1'000;

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
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) {
        return system_error("pidfd_open", errno);
    }
    return AgentProcess{.to_agent = std::move(pipes.to_agent.write),
                        .from_agent = std::move(pipes.from_agent.read),
                        .pidfd = std::move(pidfd),
                        .pid = pid};
}

/// What `ps` and `pkill` call this process: not the command line of horovodrun, which whoever kills
/// that by its name would hit as well.
void rename_process(std::span<char> command_line) {
    static constexpr std::string_view kName = "hvd-agent";
    (void)::prctl(PR_SET_NAME, kName.data());
    std::ranges::fill(command_line, '\0');
    if (command_line.size() > kName.size()) {
        std::ranges::copy(kName, command_line.begin());
    }
}

Result<AgentProcess> fork_agent(std::span<char> command_line) {
    HVD_TRY(auto pipes, make_pipes());
    const pid_t pid = ::fork();
    if (pid < 0) {
        return system_error("fork", errno);
    }
    if (pid == 0) {
        if (::dup2(pipes.to_agent.read.get(), STDIN_FILENO) < 0 ||
            ::dup2(pipes.from_agent.write.get(), STDOUT_FILENO) < 0) {
            ::_exit(1);
        }
        pipes = {};
        rename_process(command_line);
        ::_exit(agent::run_guarded_agent(STDIN_FILENO, STDOUT_FILENO));
    }
    // Where the child was put behind us on this CPU it should go first: it only forks once more,
    // and that child runs elsewhere while we go on.
    (void)::sched_yield();
    return parent_side(std::move(pipes), pid);
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

EarlyAgent::EarlyAgent(std::span<char> command_line) {
    if (auto forked = fork_agent(command_line)) {
        agent_.emplace(std::move(*forked));
    }
}

EarlyAgent::~EarlyAgent() {
    if (!agent_) {
        return;
    }
    // It ends with its control stream; it has no rank that could hold it up.
    agent_->to_agent.reset();
    agent_->from_agent.reset();
    pollfd ended{.fd = agent_->pidfd.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, kUnusedAgentPatienceMs) <= 0) {
        (void)::syscall(SYS_pidfd_send_signal, agent_->pidfd.get(), SIGKILL, nullptr, 0);
    }
    (void)::waitpid(agent_->pid, nullptr, 0);
}

}  // namespace hvd::launch
