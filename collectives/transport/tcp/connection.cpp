// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/connection.hpp"

#include "collectives/transport/tcp/keep_alive.hpp"
#include "collectives/transport/tcp/pending_connection.hpp"

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

void Connection::watch(Reactor& reactor, Alarm& check) {
    check_ = &check;
    const auto here = own_end(socket_.get());
    const auto there = far_end(socket_.get());
    here_ = here ? *here : IpAddress{};
    there_ = there ? *there : IpAddress{};
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
            if (check_ != nullptr && !check_->is_set()) {
                check_->set();
            }
            return static_cast<std::size_t>(sent);
        }
        if (errno == EINTR) {
            continue;
        }
        may_send_ = false;  // reading from it tells why it is broken
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

bool Connection::is_cut() const noexcept {
    return error_number_ == ETIMEDOUT || error_number_ == EHOSTUNREACH ||
           error_number_ == ENETUNREACH;
}

// A peer without room in its memory is alive: it answers what is sent again, more and more rarely,
// without acknowledging anything. One answer may be lost, but not several in a row.
bool Connection::check_answers(std::chrono::milliseconds limit) noexcept {
    constexpr int kMostLost = 2;
    if (!socket_ || closed_) {
        return false;
    }
    const auto state = send_state(socket_.get());
    if (!state.is_unanswered || state.retransmissions < answered_retransmissions_) {
        answered_retransmissions_ = state.retransmissions;
    }
    if (state.retransmissions - answered_retransmissions_ > kMostLost &&
        state.since_answer > limit) {
        closed_ = true;
        broken_ = true;
        error_number_ = ETIMEDOUT;
        may_send_ = false;
        may_recv_ = false;
    }
    return state.has_unacknowledged && !closed_;
}

}  // namespace hvd::coll::net
