// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/alarm.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/reactor.hpp"
#include "collectives/transport/tcp/address.hpp"

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include <sys/uio.h>

namespace hvd::coll::net {

/// One authenticated connection to a peer: bytes both ways, never blocks.
///
/// It is watched once, edge-triggered: an idle connection costs nothing, and bytes that nobody
/// wants yet stay in the kernel without waking this process again and again.
///
/// A connection without a socket takes nothing and gives nothing.
///
/// Thread: progress lock.
class Connection {
public:
    Connection() = default;
    explicit Connection(UniqueFd socket) noexcept : socket_(std::move(socket)) {}

    /// Both outlive the connection's use, and the connection stays where it is. `check` is set by
    /// whatever is sent: `check_answers` is to be called at its ticks.
    void watch(Reactor& reactor, Alarm& check);

    /// How many bytes were taken; 0 when there is no room now, or none for ever.
    [[nodiscard]] std::size_t send(std::span<const iovec> parts) noexcept;
    /// How many bytes came; 0 when none are there now, or none will come.
    [[nodiscard]] std::size_t recv(std::span<const iovec> parts) noexcept;

    /// The peer has closed the connection, or it broke: nothing more can be read.
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    /// Why, as errno; 0 when the peer closed it.
    [[nodiscard]] int error_number() const noexcept { return error_number_; }
    /// The other host has not answered for the limit, or cannot be reached any more.
    [[nodiscard]] bool is_cut() const noexcept;

    /// Nothing more can be sent: the peer will not read it.
    [[nodiscard]] bool is_broken() const noexcept { return broken_; }

    [[nodiscard]] bool is_open() const noexcept { return bool(socket_); }
    [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

    /// The addresses of the two ends.
    [[nodiscard]] const IpAddress& here() const noexcept { return here_; }
    [[nodiscard]] const IpAddress& there() const noexcept { return there_; }

    /// Breaks the connection when the other host's kernel has left what was sent to it unanswered
    /// for `limit`. Returns whether it is to be called again: sent bytes are not acknowledged yet.
    [[nodiscard]] bool check_answers(std::chrono::milliseconds limit) noexcept;

private:
    UniqueFd socket_;
    Alarm* check_ = nullptr;
    IpAddress here_{};
    IpAddress there_{};
    int answered_retransmissions_ = 0;
    bool may_send_ = bool(socket_);
    bool may_recv_ = bool(socket_);
    bool closed_ = false;
    bool broken_ = false;
    int error_number_ = 0;
};

}  // namespace hvd::coll::net
