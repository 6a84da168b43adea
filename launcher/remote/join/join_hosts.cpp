// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/join_hosts.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/remote/join/listener.hpp"
#include "launcher/remote/join/resolve.hpp"
#include "launcher/remote/join/token.hpp"
#include "launcher/wire/build_id.hpp"

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace hvd::launch {
namespace {

Error wrong(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

Result<ExpectedHosts> expected_hosts(const LaunchRequest& request,
                                     const std::vector<PlacedHost>& placed) {
    ExpectedHosts expected{.count = request.hosts.join_count, .processes = request.processes};
    if (request.hosts.list.empty()) {
        return expected;
    }
    for (const auto& one : placed) {
        if (one.host.user || one.host.port) {
            return wrong("host " + one.host.name +
                         ": with --listen hosts join by themselves; leave out user and port");
        }
        if (!one.is_here) {
            expected.hosts.push_back(one.host);
        }
    }
    if (expected.hosts.empty()) {
        return wrong("--listen waits for nobody: every host of -H is this machine; leave it out");
    }
    return expected;
}

Result<JoinToken> take_token(const LaunchRequest& request) {
    return request.hosts.join_token_file ? JoinToken::read(*request.hosts.join_token_file)
                                         : JoinToken::make(current_environment());
}

Error stopped_by(int signal) {
    return {Errc::aborted,
            "stopped by " + signal_name(signal) + " while waiting for hosts to join"};
}

std::string whom(const ExpectedHosts& expected) {
    const auto count = expected.hosts.empty() ? static_cast<std::size_t>(expected.count.value_or(0))
                                              : expected.hosts.size();
    if (count > 0) {
        return std::to_string(count) + (count == 1 ? " host" : " hosts");
    }
    return "hosts for " + std::to_string(expected.processes.value_or(1)) + " ranks";
}

/// Those that joined stand where -H has them; hosts here keep their places.
std::vector<PlacedHost> place(const LaunchRequest& request,
                              const std::vector<PlacedHost>& placed,
                              std::vector<Host> joined) {
    std::vector<PlacedHost> all;
    if (request.hosts.list.empty()) {
        for (auto& host : joined) {
            all.push_back({.host = std::move(host)});
        }
        return all;
    }
    all = placed;
    auto next = joined.begin();
    for (auto& one : all) {
        if (!one.is_here) {
            one.host = std::move(*next++);
        }
    }
    return all;
}

}  // namespace

Result<Gathered> gather_joined_hosts(IoThread& io,
                                     const BlockedSignals& signals,
                                     const LaunchRequest& request,
                                     const std::vector<PlacedHost>& placed,
                                     JoinWait wait) {
    HVD_TRY(auto expected, expected_hosts(request, placed));
    const auto awaited = whom(expected);
    const auto& at = *request.hosts.listen;
    std::unique_ptr<JoinListener> listener;
    const SignalSource source(io, signals, [&](int number) {
        if (number == SIGTSTP) {
            stop_self();
        } else if (is_stop_request(number)) {
            wait.stop_signal = number;
            if (listener) {
                listener->give_up(stopped_by(number));
            } else {
                io.stop();
            }
        }
    });
    auto addresses = resolve(io, at.host, at.port, wait.deadline);
    if (wait.stop_signal != 0) {
        return stopped_by(wait.stop_signal);
    }
    if (!addresses) {
        return std::move(addresses).error().context("--listen");
    }
    HVD_TRY(const auto token, take_token(request));
    HVD_TRY(listener, JoinListener::open(io, {.address = {.storage = addresses->front().storage,
                                                          .size = addresses->front().size},
                                              .ports = request.hosts.ports,
                                              .expected = std::move(expected),
                                              .token = token.key(),
                                              .build_id = std::string(wire::build_id()),
                                              .say = wait.say,
                                              .binding = request.binding}));
    std::error_code unknown;  // then it is shown as it was written
    const auto file = std::filesystem::absolute(token.file(), unknown);
    wait.say("waiting for " + awaited + " at " + to_string(listener->address()) +
             "; on each: horovodrun --join " + to_string(listener->address()) +
             " --join-token-file FILE, " + "with a copy of " +
             (unknown ? token.file() : file).string());
    HVD_TRY(auto joined, listener->gather(wait.deadline));
    return Gathered{.placed = place(request, placed, std::move(joined.hosts)),
                    .starter = std::move(joined.starter)};
}

}  // namespace hvd::launch
