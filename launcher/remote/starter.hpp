// SPDX-License-Identifier: Apache-2.0
//
// The seam between a fleet of agents and everything that can start an agent on a host. Each starter
// has a folder beside this file.
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The control stream of one host's agent: bytes in both directions. Thread: io.
class AgentChannel {
public:
    struct Handlers {
        std::function<void(std::span<const std::byte>)> on_bytes;  // valid during the call

        /// Called once, last: the agent's stream has ended and what we started for it is gone. The
        /// Error says how it ended when that was not in order.
        std::function<void(std::optional<Error>)> on_end;
    };

    virtual ~AgentChannel() = default;
    AgentChannel(const AgentChannel&) = delete;
    AgentChannel& operator=(const AgentChannel&) = delete;

    /// Begins to call the handlers, from the loop.
    virtual void open(Handlers handlers) = 0;

    /// Queues the bytes; never blocks.
    virtual void send(std::vector<std::byte> bytes) = 0;

    /// Calls `sent` once all that was queued is under way: at once, or later from the loop.
    virtual void when_sent(std::function<void()> sent) = 0;

    /// Ends our direction: an agent that still has ranks ends them.
    virtual void close() = 0;

    /// The step before the agent's first message, and its duration: "connecting: 10.0.0.1: no
    /// answer for 29 s". Empty where that is unknown.
    [[nodiscard]] virtual std::string progress() const { return {}; }

    /// Whether the kernel tells at once when the agent ends, and its clock is ours.
    [[nodiscard]] virtual bool is_on_this_machine() const noexcept { return false; }

    /// Whether somebody waits for the agent by hand, and is to hear from it how the job ended.
    [[nodiscard]] virtual bool wants_job_end() const noexcept { return false; }

protected:
    AgentChannel() = default;
};

/// One way to start agents.
class Starter {
public:
    virtual ~Starter() = default;
    Starter(const Starter&) = delete;
    Starter& operator=(const Starter&) = delete;

    /// As the plan names it: "local".
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// The way in which the agent of a host was started, as printed: the command, where it
    /// is one.
    [[nodiscard]] virtual std::string way_to(const Host& /*host*/) const {
        return std::string(name());
    }

    /// Errors: unavailable, with what was tried and the remedy.
    [[nodiscard]] virtual Result<std::unique_ptr<AgentChannel>> start(const Host& host) = 0;

    /// Sets the function that prints messages of a program which starts agents (srun) while the job
    /// runs; without a call, or after one with an empty function, they go to standard error.
    virtual void say_through(const std::function<void(const std::string&)>& /*say*/) {}

protected:
    Starter() = default;
};

}  // namespace hvd::launch
