// SPDX-License-Identifier: Apache-2.0
//
// In the place of the shipped header: a socket of the simulation, watched edge-triggered and read
// and written as the shipped connection does it.
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "collectives/reactor.hpp"

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/uio.h>

namespace hvd::coll::net {

class Connection {
public:
    Connection() = default;
    explicit Connection(UniqueFd socket) noexcept : socket_(std::move(socket)) {}

    void watch(Reactor& reactor) {
        reactor.watch(socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                      [this](std::uint32_t events) {
                          may_send_ = may_send_ || (events & EPOLLOUT) != 0;
                          may_recv_ = may_recv_ || (events & ~std::uint32_t{EPOLLOUT}) != 0;
                      });
    }
    [[nodiscard]] std::size_t send(std::span<const iovec> parts) noexcept {
        return may_send_ ? transfer(parts, true) : 0;
    }
    [[nodiscard]] std::size_t recv(std::span<const iovec> parts) noexcept {
        return may_recv_ && !parts.empty() ? transfer(parts, false) : 0;
    }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    [[nodiscard]] int error_number() const noexcept { return error_number_; }

private:
    std::size_t transfer(std::span<const iovec> parts, bool sends) noexcept {
        msghdr message{};
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the list is only read
        message.msg_iov = const_cast<iovec*>(parts.data());
        message.msg_iovlen = parts.size();
        const auto moved = sends ? sim::sendmsg(socket_.get(), &message, 0)
                                 : sim::recvmsg(socket_.get(), &message, 0);
        if (moved > 0) {
            return static_cast<std::size_t>(moved);
        }
        (sends ? may_send_ : may_recv_) = false;
        if (!sends && (moved == 0 || errno != EAGAIN)) {
            closed_ = true;
            error_number_ = moved == 0 ? 0 : errno;
        }
        return 0;
    }

    UniqueFd socket_;
    bool may_send_ = bool(socket_);
    bool may_recv_ = bool(socket_);
    bool closed_ = false;
    int error_number_ = 0;
};

}  // namespace hvd::coll::net
