// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_request.hpp"
#include "launcher/remote/starter.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::launch {

class IoThread;

/// The facts about this process that starters need, read once by the spine.
struct StarterContext {
    std::filesystem::path program;               // where horovodrun itself lies
    std::optional<std::filesystem::path> agent;  // HOROVOD_AGENT: this file and no other
    sigset_t signal_mask{};                      // as horovodrun was given it

    /// The time in which every agent must have come up. Each step has less, so that
    /// the error names the step that failed.
    std::chrono::milliseconds start_timeout{30'000};

    /// Told, from the loop, when the way to a host's agent enters a step. May be empty.
    std::function<void(const std::string& host, std::string_view step)> on_step{};

    /// Told what people should know of a host, such as its banner, before there is a job.
    std::function<void(const std::string& sentence)> say{};
};

/// Starts the agent on this machine, as a child of horovodrun.
[[nodiscard]] std::unique_ptr<Starter> make_local_starter(IoThread& io, StarterContext context);

/// How a job's hosts are reached that are not this machine. What a host's own user and port say
/// goes first.
struct SshTask {
    SshOptions options{};
    std::size_t hosts = 0;  // that will be started; 0: not known

    std::chrono::milliseconds connect_timeout{30'000};  // for each step up to the shell
    std::chrono::milliseconds answer_timeout{60'000};   // where others act: a token, a bootstrap

    /// As of StarterContext.
    std::function<void(const std::string& host, std::string_view step)> on_step{};

    /// Told once each, from the loop: what a host printed besides, and why it is reached otherwise
    /// than asked. Host (as written) and sentence. May be empty.
    std::function<void(const std::string& host, const std::string& sentence)> note{};
};

/// Brings the agent to other machines and starts it there. Errors: unavailable, where the agent's
/// file cannot be read.
[[nodiscard]] Result<std::unique_ptr<Starter>> make_ssh_starter(IoThread& io,
                                                                const StarterContext& context,
                                                                SshTask task);

}  // namespace hvd::launch
