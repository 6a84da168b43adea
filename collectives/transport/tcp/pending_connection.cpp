// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/pending_connection.hpp"

#include "collectives/transport/tcp/port_holder.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hvd::coll::net {
namespace {

constexpr std::size_t kReadBytes = 256;
constexpr std::string_view kConnect = "connect";  // what fails while there is no connection yet

Error unavailable(std::string_view what, int error_number) {
    auto error = system_error(what, error_number);
    error.code = Errc::unavailable;
    return error;
}

Result<UniqueFd> stream_socket(const IpAddress& ip) {
    UniqueFd socket(
        ::socket(ip.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
        return unavailable("socket", errno);
    }
    return socket;
}

void set_option(int socket, int level, int option) noexcept {
    const int on = 1;
    (void)::setsockopt(socket, level, option, &on, sizeof on);  // better with it, right without it
}

template <class Ask>
SocketAddress end_of(int socket, Ask ask) noexcept {
    SocketAddress end;
    end.size = sizeof end.storage;
    if (ask(socket, reinterpret_cast<sockaddr*>(&end.storage), &end.size) != 0) {
        end.size = 0;
    }
    return end;
}

std::uint16_t port_of(int socket) noexcept {
    const auto bound = end_of(socket, ::getsockname);
    if (bound.size == 0) {
        return 0;
    }
    // At the same place for both families.
    sockaddr_in address{};
    std::memcpy(&address, &bound.storage, sizeof address);
    return ntohs(address.sin_port);
}

}  // namespace

Result<Listener> listen_at(const HostAddress& address, const PortRange& ports, int start) {
    const int count = ports.last - ports.first + 1;
    for (int tried = 0; tried < count; ++tried) {
        HVD_TRY(auto socket, stream_socket(address.ip));
        const auto port = static_cast<std::uint16_t>(ports.first + (start + tried) % count);
        if (ports.first != 0) {
            set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR);  // TIME_WAIT of an earlier job
        }
        if (address.ip.is_v6) {
            set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY);
        }
        const auto at = to_socket_address(address.ip, port);
        // Two sockets may be bound to one port before either listens: then listen refuses.
        if (::bind(socket.get(), at.get(), at.size) == 0 &&
            ::listen(socket.get(), SOMAXCONN) == 0) {
            const ListenAddress endpoint{.at = address, .port = port_of(socket.get())};
            return Listener{std::move(socket), endpoint};
        }
        if (errno != EADDRINUSE) {
            return unavailable("cannot listen at " + to_string(ListenAddress{address, port}),
                               errno);
        }
    }
    return Error{Errc::unavailable, "no port from " + std::to_string(ports.first) + " to " +
                                        std::to_string(ports.last) + " is free at " +
                                        to_string(address.ip) + " (HOROVOD_PORT_RANGE)" +
                                        tell_port_holders(address.ip, ports)};
}

Result<UniqueFd> begin_connect(const ListenAddress& to) {
    HVD_TRY(auto socket, stream_socket(to.at.ip));
    const auto address = to_socket_address(to.at.ip, to.port);
    if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        return unavailable(kConnect, errno);
    }
    return socket;
}

bool is_refusal(const Error& error) {
    return error == unavailable(kConnect, ECONNREFUSED);
}

Result<IpAddress> own_end(int socket) {
    const auto end = end_of(socket, ::getsockname);
    if (end.size == 0) {
        return unavailable("getsockname", errno);
    }
    return to_ip(end.get());
}

Result<IpAddress> far_end(int socket) {
    const auto end = end_of(socket, ::getpeername);
    if (end.size == 0) {
        return unavailable("getpeername", errno);
    }
    return to_ip(end.get());
}

PendingConnection::PendingConnection(UniqueFd socket, Handshake handshake, Deadline limit)
    : socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      limit_(limit),
      out_(handshake_.take_output()) {
    set_option(socket_.get(), IPPROTO_TCP, TCP_NODELAY);
}

Status PendingConnection::advance() {
    HVD_TRY_STATUS(check_connected());
    while (true) {
        HVD_TRY_STATUS(send());
        HVD_TRY(const bool read_on, read());
        const auto answer = handshake_.take_output();
        out_.insert(out_.end(), answer.begin(), answer.end());
        if (!read_on && answer.empty()) {
            return ok();
        }
    }
}

Status PendingConnection::check_connected() {
    if (connected_) {
        return ok();
    }
    int error_number = 0;
    socklen_t size = sizeof error_number;
    if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_number, &size) != 0) {
        error_number = errno;
    }
    if (error_number != 0) {
        return unavailable(kConnect, error_number);
    }
    return ok();
}

Status PendingConnection::send() {
    while (!out_.empty()) {
        const auto sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            connected_ = true;
            out_.erase(out_.begin(), out_.begin() + sent);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN) {
            return ok();
        } else if (errno != EINTR) {
            return unavailable(connected_ ? "send" : kConnect, errno);
        }
    }
    return ok();
}

Result<bool> PendingConnection::read() {
    std::array<std::byte, kReadBytes> bytes{};
    const auto wanted = std::min(bytes.size(), handshake_.needed());
    if (wanted == 0) {
        return false;
    }
    const auto received = ::recv(socket_.get(), bytes.data(), wanted, 0);
    if (received > 0) {
        connected_ = true;
        HVD_TRY_STATUS(handshake_.feed(std::span(bytes).first(static_cast<std::size_t>(received))));
        return true;
    }
    if (received == 0) {
        return Error{Errc::unavailable, "it closed the connection"};
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN) {
        return false;
    }
    if (errno == EINTR) {
        return true;
    }
    return unavailable("recv", errno);
}

}  // namespace hvd::coll::net
