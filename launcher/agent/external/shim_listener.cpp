// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/shim_listener.hpp"

#include "collectives/base/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// For which the buffer of a new connection always has room.
constexpr std::size_t kFirstBytes = std::size_t{16} << 10;

/// Connections of processes that are no rank; the oldest is closed for a new one.
constexpr std::size_t kMaxConnections = 4096;

}  // namespace

Status ShimListener::listen(const std::string& name) {
    HVD_TRY(auto listening, listen_abstract(name, SOCK_STREAM));
    if (listening.is_name_taken) {
        return Error{Errc::unavailable, "socket @" + name + " is in use by another process"};
    }
    listener_ = std::move(listening.socket);
    loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
    return ok();
}

void ShimListener::accept() {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
        return;
    }
    const auto peer = peer_credentials(fd.get());
    if (!peer || peer->uid != ::geteuid()) {
        return;
    }
    if (connections_.size() >= kMaxConnections) {
        close(connections_.begin()->first);
    }
    const auto id = next_connection_++;
    auto& connection = connections_[id];
    connection.socket = std::move(fd);
    connection.pid = peer->pid;
    loop_.watch(connection.socket.get(), EPOLLIN, [this, id](std::uint32_t events) {
        if ((events & EPOLLOUT) != 0 && !write(connections_.at(id))) {
            close(id);
        } else if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
            read(id);
        }
    });
    read(id);  // its claim has mostly arrived by now
}

void ShimListener::read(ConnectionId id) {
    auto& connection = connections_.at(id);
    std::array<std::byte, 4096> bytes{};
    const auto count = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (count > 0) {
        connection.frames.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
        if (handle_frames(id)) {
            return;
        }
    } else if (connection.is_claimed) {
        on_.on_executed(id);
    }
    close(id);
}

/// False: the connection is of no use any more.
bool ShimListener::handle_frames(ConnectionId id) {
    auto& connection = connections_.at(id);
    while (true) {
        const auto body = connection.frames.next();
        if (!body) {
            return false;
        }
        if (!*body) {
            return true;
        }
        if (connection.is_claimed) {
            if (const auto failure = decode_failure(**body)) {
                on_.on_failure(id, *failure);
            }
            return false;
        }
        const auto claim = decode_claim(**body);
        if (!claim || !answer(id, *claim)) {
            return false;
        }
    }
}

bool ShimListener::answer(ConnectionId id, const ShimClaim& claim) {
    auto& connection = connections_.at(id);
    const auto answer = on_.on_claim(id, connection.pid, claim);
    connection.is_claimed = answer.reply.refusal.empty();
    std::vector<int> fds;
    if (answer.streams) {
        fds = {answer.streams->out.get(), answer.streams->err.get()};
    }
    const auto frame = encode(answer.reply);
    const auto first = std::min(frame.size(), kFirstBytes);
    if (!send_packet(connection.socket.get(), std::span(frame).first(first), fds,
                     Deadline::in({}))) {
        return false;
    }
    connection.unsent.assign(frame.begin() + static_cast<std::ptrdiff_t>(first), frame.end());
    return write(connection) && connection.is_claimed;
}

/// False: the connection is broken.
bool ShimListener::write(Connection& connection) {
    auto& unsent = connection.unsent;
    if (!unsent.empty()) {
        const auto count =
            ::send(connection.socket.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        unsent.erase(unsent.begin(), unsent.begin() + std::max<ssize_t>(count, 0));
    }
    const bool has_to_wait = !unsent.empty();
    if (std::exchange(connection.is_waiting_to_write, has_to_wait) != has_to_wait) {
        loop_.change(connection.socket.get(), has_to_wait ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    return true;
}

void ShimListener::drain(ConnectionId id) {
    for (int reads = 0; reads < 2 && connections_.contains(id); ++reads) {
        read(id);  // a last message, then the end
    }
    if (connections_.contains(id)) {
        close(id);
    }
}

void ShimListener::close(ConnectionId id) {
    const auto found = connections_.find(id);
    loop_.forget(found->second.socket.get());
    connections_.erase(found);
}

}  // namespace hvd::launch::agent
