// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/external/shim_protocol.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/agent/io/output_pump.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The socket at which the shims of this host's ranks claim them. Nothing here blocks: a reply that
/// a shim does not read waits in memory.
class ShimListener final {
public:
    using ConnectionId = std::uint64_t;

    /// A reply without a refusal makes the connection that of a rank. The shim replaces its
    /// standard streams by the given ones; without them it keeps those of its launcher.
    struct Answer {
        ShimReply reply;
        std::optional<OutputPump::Ends> streams;
    };

    struct Handlers {
        std::function<Answer(ConnectionId id, pid_t shim, const ShimClaim& claim)> on_claim;
        std::function<void(ConnectionId id, const ShimFailure& failure)> on_failure;
        std::function<void(ConnectionId id)> on_executed;  // execve has closed the shim's socket
    };

    ShimListener(EventLoop& loop, Handlers handlers) : loop_(loop), on_(std::move(handlers)) {}

    /// Errors: invalid_argument or unavailable, when the name cannot be had.
    [[nodiscard]] Status listen(const std::string& name);

    /// The process has ended: reads its last message and closes its connection.
    void drain(ConnectionId id);

private:
    struct Connection {
        UniqueFd socket;
        pid_t pid = 0;
        bool is_claimed = false;
        ShimFrames frames;
        std::vector<std::byte> unsent;
        bool is_waiting_to_write = false;
    };

    void accept();
    void read(ConnectionId id);
    [[nodiscard]] bool handle_frames(ConnectionId id);
    [[nodiscard]] bool answer(ConnectionId id, const ShimClaim& claim);
    [[nodiscard]] bool write(Connection& connection);
    void close(ConnectionId id);

    EventLoop& loop_;
    Handlers on_;
    UniqueFd listener_;
    std::map<ConnectionId, Connection> connections_;
    ConnectionId next_connection_ = 0;
};

}  // namespace hvd::launch::agent
