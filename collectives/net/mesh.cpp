// SPDX-License-Identifier: Apache-2.0
#include "collectives/net/mesh.hpp"

#include <array>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

constexpr int kLingerSeconds = 1;
constexpr int kDrainReads = 256;  // a peer that goes on sending does not keep us

/// Ends a connection so that what was sent arrives: a close with unread bytes would reset it.
void finish(Link& link) noexcept {
    (void)::shutdown(link.descriptor(), SHUT_WR);
    std::array<std::byte, 4096> ignored{};
    const iovec into{.iov_base = ignored.data(), .iov_len = ignored.size()};
    for (int reads = 0; reads < kDrainReads && link.recv({&into, 1}) != 0; ++reads) {
    }
}

/// The close waits until the peer's kernel has what was sent, or for a second.
void linger_on_close(const Link& link) noexcept {
    const linger wait{.l_onoff = 1, .l_linger = kLingerSeconds};
    (void)::setsockopt(link.descriptor(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
}

}  // namespace

Mesh::Mesh(int rank, std::vector<Peer> peers) : rank_(rank), peers_(std::move(peers)) {
    for (int each = 0; each < size(); ++each) {
        if (each != rank_) {
            peer(each).control.watch(reactor_);
            peer(each).data.watch(reactor_);
        }
    }
}

Mesh::~Mesh() {
    for (auto& each : peers_) {
        finish(each.control);
        finish(each.data);
    }
    // One after the other, but no more than the limit for all together.
    const auto limit = Deadline::in(std::chrono::seconds(kLingerSeconds));
    for (auto& each : peers_) {
        if (!limit.has_passed()) {
            linger_on_close(each.control);
        }
        each = Peer{};
    }
}

std::string Mesh::describe(int rank) const {
    const auto& identity = peers_.at(static_cast<std::size_t>(rank)).identity;
    return "rank " + std::to_string(rank) + " (pid " + std::to_string(identity.pid) + " on host " +
           identity.host + ")";
}

void Mesh::close_in_child() const noexcept {
    for (const auto& peer : peers_) {
        (void)::close(peer.control.descriptor());
        (void)::close(peer.data.descriptor());
    }
}

}  // namespace hvd::coll::net
