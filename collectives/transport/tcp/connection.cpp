// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/connection.hpp"

#include <cerrno>
#include <cstdint>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace hvd::coll::net {
namespace {

msghdr message_of(std::span<const iovec> parts) noexcept {
    msghdr message{};
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the kernel only reads the list
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    return message;
}

}  // namespace

void Connection::watch(Reactor& reactor) {
    reactor.watch(socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                  [this](std::uint32_t events) {
                      may_send_ = may_send_ || (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
                      may_recv_ = may_recv_ || (events & ~std::uint32_t{EPOLLOUT}) != 0;
                  });
}

std::size_t Connection::send(std::span<const iovec> parts) noexcept {
    if (!may_send_) {
        return 0;
    }
    const auto message = message_of(parts);
    while (true) {
        const auto sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            return static_cast<std::size_t>(sent);
        }
        if (errno == EINTR) {
            continue;
        }
        may_send_ = false;  // a broken link tells why to who reads from it
        broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS;
        return 0;
    }
}

std::size_t Connection::recv(std::span<const iovec> parts) noexcept {
    if (!may_recv_ || parts.empty()) {
        return 0;
    }
    auto message = message_of(parts);
    while (true) {
        const auto received = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
        if (received > 0) {
            return static_cast<std::size_t>(received);
        }
        if (received < 0 && errno == EINTR) {
            continue;
        }
        may_recv_ = false;
        if (received == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
            closed_ = true;
            error_number_ = received == 0 ? 0 : errno;
        }
        return 0;
    }
}

}  // namespace hvd::coll::net
