// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/link_listener.hpp"

#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/rank_record.hpp"
#include "launcher/agent/probe/link_protocol.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxUnsent = 4096;  // of answers of 8 bytes to somebody who reads none
constexpr std::size_t kMaxUnauthenticated = 16;
constexpr int kReadsPerTurn = 16;  // then the launcher is heard

/// Takes the same time wherever they differ.
bool is_same(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
    std::byte difference{};
    for (std::size_t index = 0; index < a.size(); ++index) {
        difference |= a[index] ^ b[index];
    }
    return difference == std::byte{};
}

}  // namespace

wire::LinkOpen LinkListener::open(const wire::OpenLink& wanted) {
    close_all();
    wire::LinkOpen answer{.id = wanted.id, .record = {}, .error = {}};
    auto record = listen(wanted);
    if (!record) {
        close_all();
        answer.error = record.error().message;
        return answer;
    }
    answer.record = std::move(*record);
    id_ = wanted.id;
    secret_ = wanted.secret;
    buffer_.resize(kBufferBytes);
    deadline_ = std::chrono::steady_clock::now() + kLinkLimit;
    for (const auto& listener : listeners_) {
        const int fd = listener.socket.get();
        loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { accept_from(fd); });
    }
    return answer;
}

Result<std::vector<std::byte>> LinkListener::listen(const wire::OpenLink& wanted) {
    namespace net = coll::net;
    if (wanted.secret.size() != kSecretBytes) {
        return Error{Errc::internal, "the secret of a link has a wrong length"};
    }
    HVD_TRY(const auto filter, net::parse_interface_filter(wanted.interfaces));
    net::PortRange ports;
    if (!wanted.ports.empty()) {
        HVD_TRY(ports, net::parse_port_range(wanted.ports));
    }
    HVD_TRY(auto all, net::host_addresses());
    HVD_TRY(const auto addresses, net::allowed_addresses(std::move(all), filter));
    net::RankRecord record;
    record.pid = static_cast<std::int32_t>(::getpid());
    for (const auto& address : addresses) {
        if (net::is_loopback(address.ip)) {
            continue;  // means another machine to the other end
        }
        HVD_TRY(auto listener, net::listen_at(address, ports, 0));
        record.endpoints.push_back(listener.endpoint);
        listeners_.push_back(std::move(listener));
    }
    if (listeners_.empty()) {
        return Error{Errc::unavailable,
                     "it has no address that another host could reach; see --network-interfaces"};
    }
    return net::encode(record);
}

void LinkListener::accept_from(int listener) {
    while (true) {
        UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            return;
        }
        if (peers_.size() >= kMaxUnauthenticated) {
            drop(peers_.begin());
        }
        const int on = 1;
        (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        const int fd = socket.get();
        const auto peer = peers_.insert(peers_.end(), Peer{.socket = std::move(socket)});
        loop_.watch(fd, EPOLLIN, [this, peer](std::uint32_t) { on_ready(peer); });
    }
}

void LinkListener::on_ready(Peers::iterator peer) {
    const bool was_proven = peer->is_proven;
    if (!read(*peer) || !write(*peer)) {
        drop(peer);
        return;
    }
    if (peer->is_proven && !was_proven) {
        stop_listening();
        for (auto other = peers_.begin(); other != peers_.end();) {
            const auto next = std::next(other);
            if (other != peer) {
                drop(other);
            }
            other = next;
        }
    }
}

/// False: the connection is of no use any more.
bool LinkListener::read(Peer& peer) {
    for (int turn = 0; turn < kReadsPerTurn; ++turn) {
        const auto size = ::recv(peer.socket.get(), buffer_.data(), buffer_.size(), 0);
        if (size < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        const auto bytes = std::span(buffer_).first(static_cast<std::size_t>(size));
        if (bytes.empty() || !(peer.is_proven ? take(peer, bytes) : prove(peer, bytes))) {
            return false;
        }
        if (bytes.size() < buffer_.size()) {
            return true;
        }
    }
    return true;
}

bool LinkListener::prove(Peer& peer, std::span<const std::byte> bytes) {
    if (peer.in.size() + bytes.size() > kProofBytes) {
        return false;
    }
    peer.in.insert(peer.in.end(), bytes.begin(), bytes.end());
    if (peer.in.size() < kProofBytes) {
        return true;
    }
    const auto secret = std::span<const std::byte>(secret_);
    if (!is_same(peer.in, secret.first(kProofBytes))) {
        return false;
    }
    peer.is_proven = true;
    peer.in.clear();
    const auto answer = secret.subspan(kProofBytes);
    peer.unsent.assign(answer.begin(), answer.end());
    return true;
}

bool LinkListener::take(Peer& peer, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        if (peer.payload_left > 0) {
            const auto size = std::min<std::uint64_t>(peer.payload_left, bytes.size());
            peer.payload_left -= size;
            bytes = bytes.subspan(size);
        } else {
            const auto size = std::min(kHeaderBytes - peer.in.size(), bytes.size());
            peer.in.insert(peer.in.end(), bytes.begin(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(size));
            bytes = bytes.subspan(size);
            if (peer.in.size() < kHeaderBytes) {
                return true;
            }
            std::memcpy(&peer.header, peer.in.data(), kHeaderBytes);
            peer.in.clear();
            peer.payload_left = peer.header;
            if (peer.header > kMaxPayload) {
                return false;
            }
        }
        if (peer.payload_left == 0) {
            const auto answer = std::as_bytes(std::span(&peer.header, 1));
            peer.unsent.insert(peer.unsent.end(), answer.begin(), answer.end());
            if (peer.unsent.size() > kMaxUnsent) {
                return false;
            }
        }
    }
    return true;
}

bool LinkListener::write(Peer& peer) {
    while (!peer.unsent.empty()) {
        const auto size =
            ::send(peer.socket.get(), peer.unsent.data(), peer.unsent.size(), MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0 && errno != EAGAIN) {
            return false;
        }
        if (size < 0) {
            break;
        }
        peer.unsent.erase(peer.unsent.begin(), peer.unsent.begin() + size);
    }
    const bool has_to_wait = !peer.unsent.empty();
    if (std::exchange(peer.is_waiting_to_write, has_to_wait) != has_to_wait) {
        loop_.change(peer.socket.get(), has_to_wait ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    return true;
}

void LinkListener::close(std::uint32_t id) {
    if (id == id_) {
        close_all();
    }
}

void LinkListener::time_passed(std::chrono::steady_clock::time_point now) {
    if (deadline_ && now >= *deadline_) {
        close_all();
    }
}

void LinkListener::stop_listening() {
    for (const auto& listener : listeners_) {
        loop_.forget(listener.socket.get());
    }
    listeners_.clear();
}

void LinkListener::drop(Peers::iterator peer) {
    loop_.forget(peer->socket.get());
    peers_.erase(peer);
    if (listeners_.empty() && peers_.empty()) {
        deadline_.reset();
    }
}

void LinkListener::close_all() {
    stop_listening();
    while (!peers_.empty()) {
        drop(peers_.begin());
    }
    buffer_ = {};
    deadline_.reset();
}

}  // namespace hvd::launch::agent
