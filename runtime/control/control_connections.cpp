// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/control_connections.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd::rt {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

}  // namespace

ControlConnections::ControlConnections(coll::net::Mesh& mesh, OnFrame on_frame, OnClosed on_closed)
    : mesh_(mesh),
      on_frame_(std::move(on_frame)),
      on_closed_(std::move(on_closed)),
      peers_(static_cast<std::size_t>(mesh.size())) {}

void ControlConnections::send(int peer, const frame::Any& message) {
    auto& to = peers_[static_cast<std::size_t>(peer)];
    if (to.is_gone) {
        return;
    }
    if (to.out_taken > kReadBytes) {
        to.out.erase(to.out.begin(), to.out.begin() + static_cast<std::ptrdiff_t>(to.out_taken));
        to.out_taken = 0;
    }
    const auto bytes = encode(message);
    to.out.insert(to.out.end(), bytes.begin(), bytes.end());
}

void ControlConnections::send_to_all(const frame::Any& message) {
    for (int peer = first_peer(); peer < end_peer(); ++peer) {
        send(peer, message);
    }
}

bool ControlConnections::pump() {
    bool has_moved = false;
    for (int peer = first_peer(); peer < end_peer(); ++peer) {
        has_moved = pump_in(peer) || has_moved;
    }
    // After the last peer was read: what came in may have caused what goes out.
    for (int peer = first_peer(); peer < end_peer(); ++peer) {
        has_moved = pump_out(peer) || has_moved;
    }
    return has_moved;
}

void ControlConnections::drain(Deadline deadline) {
    (void)pump();
    while (has_output() && !deadline.has_passed()) {
        (void)mesh_.reactor().wait(deadline);
        mesh_.reactor().dispatch();
        (void)pump();
    }
}

bool ControlConnections::has_output() const noexcept {
    return std::ranges::any_of(peers_,
                               [](const Peer& peer) { return !peer.is_gone && !peer.out.empty(); });
}

bool ControlConnections::pump_out(int rank) {
    auto& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.out.empty()) {
        return false;
    }
    auto& connection = mesh_.peer(rank).control;
    bool has_moved = false;
    while (peer.out_taken < peer.out.size()) {
        const iovec rest{.iov_base = peer.out.data() + peer.out_taken,
                         .iov_len = peer.out.size() - peer.out_taken};
        const auto sent = connection.send({&rest, 1});
        if (sent == 0) {
            return has_moved;
        }
        peer.out_taken += sent;
        has_moved = true;
    }
    peer.out.clear();
    peer.out_taken = 0;
    return has_moved;
}

bool ControlConnections::pump_in(int rank) {
    auto& peer = peers_[static_cast<std::size_t>(rank)];
    auto& connection = mesh_.peer(rank).control;
    if (peer.is_gone) {
        return false;
    }
    bool has_moved = false;
    std::array<std::byte, kReadBytes> bytes;  // NOLINT: filled by recv
    const iovec into{.iov_base = bytes.data(), .iov_len = bytes.size()};
    for (auto size = connection.recv({&into, 1}); size != 0; size = connection.recv({&into, 1})) {
        has_moved = true;
        peer.in.feed(std::span(bytes).first(size));
        while (true) {
            auto message = peer.in.next();
            if (!message) {
                broken_ = std::move(message).error().context(mesh_.describe(rank));
                return true;
            }
            if (!*message) {
                break;
            }
            on_frame_(rank, **std::move(message));
        }
    }
    if (connection.is_closed()) {
        peer.is_gone = true;
        peer.out.clear();
        on_closed_(rank);
        has_moved = true;
    }
    return has_moved;
}

}  // namespace hvd::rt
