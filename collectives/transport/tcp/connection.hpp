// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "collectives/reactor.hpp"

#include <cstddef>
#include <span>
#include <utility>

#include <sys/uio.h>

namespace hvd::coll::net {

/// One authenticated connection to a peer: bytes both ways, never blocks.
///
/// Watched once, edge-triggered: an idle link costs nothing, and what a peer sends before we want
/// it stays in the kernel without waking us again and again.
///
/// One without a socket takes nothing and gives nothing.
///
/// Thread: baton.
class Connection {
public:
    Connection() = default;
    explicit Connection(UniqueFd socket) noexcept : socket_(std::move(socket)) {}

    /// `reactor` outlives the link's use, and the link stays where it is.
    void watch(Reactor& reactor);

    /// How many bytes were taken; 0 when there is no room now, or none for ever.
    [[nodiscard]] std::size_t send(std::span<const iovec> parts) noexcept;
    /// How many bytes came; 0 when none are there now, or none will come.
    [[nodiscard]] std::size_t recv(std::span<const iovec> parts) noexcept;

    /// The peer has closed the connection, or it broke: nothing more can be read.
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    /// Why, as errno; 0 when the peer closed it.
    [[nodiscard]] int error_number() const noexcept { return error_number_; }

    /// Nothing more can be sent: the peer will not read it.
    [[nodiscard]] bool is_broken() const noexcept { return broken_; }

    [[nodiscard]] bool is_open() const noexcept { return bool(socket_); }
    [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

private:
    UniqueFd socket_;
    bool may_send_ = bool(socket_);
    bool may_recv_ = bool(socket_);
    bool closed_ = false;
    bool broken_ = false;
    int error_number_ = 0;
};

}  // namespace hvd::coll::net
