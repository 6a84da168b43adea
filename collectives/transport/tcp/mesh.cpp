// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/mesh.hpp"

#include <array>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

constexpr int kLingerSeconds = 1;
constexpr int kDrainReads = 256;  // a peer that goes on sending does not keep us

/// Reads what nobody wants any more: a close with unread bytes would reset the connection, and what
/// was sent might not arrive.
void drain(const Connection& link) noexcept {
    std::array<std::byte, 4096> ignored{};
    for (int reads = 0; reads < kDrainReads; ++reads) {
        if (::recv(link.descriptor(), ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) {
            return;
        }
    }
}

/// The close waits until the peer's kernel has what was sent, or for a second.
void linger_on_close(const Connection& link) noexcept {
    const linger wait{.l_onoff = 1, .l_linger = kLingerSeconds};
    (void)::setsockopt(link.descriptor(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
}

}  // namespace

Mesh::Mesh(Parts parts)
    : rank_(parts.rank),
      link_limit_(parts.link_limit),
      reactor_(std::move(parts.reactor)),
      peers_(std::move(parts.peers)),
      host_ways_(std::move(parts.host_routes)),
      is_homogeneous_(parts.is_homogeneous),
      maker_(std::move(parts.maker)) {
    for (auto& each : peers_) {
        for (Connection* link : {&each.control, &each.data}) {
            if (link->is_open()) {
                link->watch(*reactor_);
            }
        }
    }
    maker_->work_for(*this);
    maker_->expect(static_cast<std::size_t>(size() - rank_ - 1));
    close_idle_listeners();
}

Mesh::~Mesh() {
    maker_->stop();
    for (auto& each : peers_) {
        (void)::shutdown(each.control.descriptor(), SHUT_WR);
        (void)::shutdown(each.data.descriptor(), SHUT_WR);
    }
    // One after the other, but no more than the limit for all together.
    const auto limit = Deadline::in(std::chrono::seconds(kLingerSeconds));
    for (auto& each : peers_) {
        drain(each.control);
        drain(each.data);
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
    maker_->close_in_child();
    for (const auto& peer : peers_) {
        (void)::close(peer.control.descriptor());
        (void)::close(peer.data.descriptor());
    }
}

}  // namespace hvd::coll::net
