// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/user_terminal.hpp"
#include "launcher/supervise/input_pump.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace hvd::launch {

class IoThread;

/// Whether there is a terminal that the request can give to a rank. Errors: invalid_argument.
[[nodiscard]] Status check_terminal(const LaunchRequest& request);

/// The terminal of horovodrun in the hands of one rank, from the rank's start to its end: what is
/// typed goes there, and nothing typed is a signal to horovodrun. Before and after that it is an
/// ordinary terminal, in which Ctrl-C asks the job to end. Thread: io.
class LentTerminal final {
public:
    /// Tells its size to the host of the rank, which has not been started. Errors: unavailable.
    [[nodiscard]] static Result<std::unique_ptr<LentTerminal>> lend(IoThread& io,
                                                                    AgentFleet& fleet,
                                                                    std::size_t host,
                                                                    int rank);

    [[nodiscard]] std::size_t host() const noexcept { return host_; }
    [[nodiscard]] int rank() const noexcept { return rank_; }

    /// The rank has started.
    void begin();

    /// The rank has ended, or nobody hears of it any more. Its output may still be written.
    void end();

    /// All output was written.
    void restore() { terminal_->restore(); }

    /// The host has taken so many bytes more.
    void taken(std::size_t host, std::uint64_t bytes);

    /// Another size, or horovodrun stops or goes on.
    void on_signal(int signal);

private:
    LentTerminal(IoThread& io,
                 AgentFleet& fleet,
                 std::size_t host,
                 int rank,
                 std::unique_ptr<UserTerminal> terminal);

    void take();
    void tell_size();

    IoThread& io_;
    AgentFleet& fleet_;
    std::size_t host_;
    int rank_;
    std::unique_ptr<UserTerminal> terminal_;
    bool is_lent_ = false;            // the rank runs
    std::optional<InputPump> input_;  // while the terminal is raw
};

}  // namespace hvd::launch
