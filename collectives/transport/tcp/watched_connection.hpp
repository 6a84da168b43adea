// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/transport/tcp/open_sockets.hpp"
#include "collectives/transport/tcp/pending_connection.hpp"

namespace hvd::coll::net {

/// A pending connection that a reactor watches and that a forked child closes. Private to this
/// folder.
struct WatchedConnection {
    PendingConnection connection;
    OpenSockets::Entry open;
    bool is_over = false;  // its object goes at the next tick

    void end(Reactor& reactor) {
        if (!is_over) {
            reactor.forget(connection.descriptor());
            open = {};
            (void)connection.take_socket();
            is_over = true;
        }
    }

    /// The socket, which the reactor watches no more and `open` still counts.
    [[nodiscard]] UniqueFd take_socket(Reactor& reactor) {
        reactor.forget(connection.descriptor());
        is_over = true;
        return connection.take_socket();
    }
};

/// How this process proves itself on new connections.
struct Identity {
    WorldKey key{};
    RankIdentity rank{};
};

}  // namespace hvd::coll::net
