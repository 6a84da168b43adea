// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/join_node.hpp"

#include "collectives/base/argv.hpp"
#include "collectives/base/deadline.hpp"
#include "launcher/agent/lifecycle/pid1_signals.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/output/say.hpp"
#include "launcher/remote/agent_file.hpp"
#include "launcher/remote/host_starters.hpp"
#include "launcher/remote/join/resolve.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include <poll.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// One question to the name service.
constexpr auto kLookupTimeout = std::chrono::seconds(10);
constexpr int kRetryMs = 1'000;

/// A name may not be known yet: the pod of the launcher is only being made.
Result<std::vector<ssh::Address>> find_launcher(const EndPoint& launcher, Deadline deadline) {
    bool has_said = false;
    while (true) {
        IoThread io;
        auto found = resolve(io, launcher.host, launcher.port, io.in(kLookupTimeout));
        if (found || deadline.has_passed()) {
            return found;
        }
        if (!std::exchange(has_said, true)) {
            say_on_stderr("waiting: " + found.error().message);
        }
        (void)::poll(nullptr, 0, std::min(kRetryMs, deadline.poll_timeout_ms()));
    }
}

std::string literal(const ssh::Address& address, int port) {
    const auto host =
        address.storage.ss_family == AF_INET6 ? "[" + address.text + "]" : address.text;
    return host + ":" + std::to_string(port);
}

std::vector<std::string> agent_arguments(const JoinRequest& request,
                                         const std::vector<ssh::Address>& addresses,
                                         Deadline deadline) {
    std::vector<std::string> arguments{"hvd-agent"};
    const auto add = [&arguments](std::string flag, std::string value) {
        arguments.push_back(std::move(flag));
        arguments.push_back(std::move(value));
    };
    for (const auto& address : addresses) {
        add("--join", literal(address, request.launcher.port));
    }
    if (request.token_file) {
        add("--join-token-file", request.token_file->string());
    }
    if (!request.name.empty()) {
        add("--join-name", request.name);
    }
    if (request.slots > 0) {
        add("--join-slots", std::to_string(request.slots));
    }
    constexpr int kMsPerSecond = 1'000;
    add("--start-timeout",
        std::to_string((deadline.poll_timeout_ms() + kMsPerSecond - 1) / kMsPerSecond));
    return arguments;
}

}  // namespace

int join(const JoinRequest& request) {
    const agent::Pid1Signals obedient;
    const auto deadline = Deadline::in(request.timeout);
    const auto agent = find_agent_file(program_context());
    if (!agent) {
        say_on_stderr("no agent to join with: " + agent.error().message);
        return kExitLauncherFailure;
    }
    const auto addresses = find_launcher(request.launcher, deadline);
    if (!addresses) {
        say_on_stderr("--join " + request.launcher.host + ": " + addresses.error().message);
        return kExitTimeLimit;
    }
    auto arguments = agent_arguments(request, *addresses, deadline);
    ::execv(agent->c_str(), pointers_to(arguments).data());
    say_on_stderr(system_error(*agent, errno).message);
    return kExitLauncherFailure;
}

}  // namespace hvd::launch
