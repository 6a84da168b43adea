// SPDX-License-Identifier: Apache-2.0
//
// A socket on its way to becoming a Connection.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/reactor.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/handshake.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace hvd::coll::net {

/// A non-blocking socket that listens at the address, on a free port of the range, beginning with
/// the `start`-th. Errors: unavailable.
struct Listener {
    UniqueFd socket;
    ListenAddress endpoint;
};
[[nodiscard]] Result<Listener> listen_at(const HostAddress& address,
                                         const PortRange& ports,
                                         int start);

/// A non-blocking socket that is connecting. Errors: unavailable.
[[nodiscard]] Result<UniqueFd> begin_connect(const ListenAddress& to);

/// Of an error of a connection: the other machine is there, and nobody listens at that port of it.
[[nodiscard]] bool is_refusal(const Error& error);

/// The two ends of a connection, without their ports. Errors: unavailable when it is broken.
[[nodiscard]] Result<IpAddress> own_end(int socket);
[[nodiscard]] Result<IpAddress> far_end(int socket);

/// One handshake on one socket. Thread: progress lock.
class PendingConnection {
public:
    PendingConnection(UniqueFd socket, Handshake handshake, Deadline limit);

    /// Sends and reads what can be now. After an Error the conversation is of no use.
    [[nodiscard]] Status advance();

    [[nodiscard]] Handshake& handshake() noexcept { return handshake_; }
    [[nodiscard]] const Handshake& handshake() const noexcept { return handshake_; }
    [[nodiscard]] bool is_done() const noexcept { return handshake_.is_done() && out_.empty(); }
    /// The other machine has taken the connection.
    [[nodiscard]] bool is_connected() const noexcept { return connected_; }
    [[nodiscard]] const Deadline& limit() const noexcept { return limit_; }
    void wait_for_ever() noexcept { limit_ = Deadline::never(); }
    [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
    [[nodiscard]] UniqueFd take_socket() noexcept { return std::move(socket_); }

private:
    [[nodiscard]] Status send();
    [[nodiscard]] Result<bool> read();
    [[nodiscard]] Status check_connected();

    UniqueFd socket_;
    Handshake handshake_;
    Deadline limit_;
    bool connected_ = false;
    std::vector<std::byte> out_;
};

}  // namespace hvd::coll::net
