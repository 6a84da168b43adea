// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/mesh.hpp"

#include "collectives/transport/tcp/cut_notice.hpp"
#include "collectives/transport/tcp/keep_alive.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

constexpr int kLingerSeconds = 1;
constexpr int kDrainReads = 256;  // a peer that goes on sending does not hold this rank up

/// Reads what is of no use any more: a close with unread bytes would reset the connection, and what
/// was sent might not arrive.
void drain(const Connection& connection) noexcept {
    std::array<std::byte, 4096> ignored{};
    for (int reads = 0; reads < kDrainReads; ++reads) {
        if (::recv(connection.descriptor(), ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) {
            return;
        }
    }
}

/// The close waits until the peer's kernel has what was sent, or for a second.
void linger_on_close(const Connection& connection) noexcept {
    const linger wait{.l_onoff = 1, .l_linger = kLingerSeconds};
    (void)::setsockopt(connection.descriptor(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
}

/// So often that a lease ends at most an eighth late.
std::chrono::milliseconds check_interval(std::chrono::milliseconds lease) noexcept {
    constexpr std::chrono::milliseconds kShortest{50};
    constexpr std::chrono::milliseconds kLongest{5000};
    return lease.count() > 0 ? std::clamp(lease / 8, kShortest, kLongest) : kLongest;
}

}  // namespace

Mesh::Mesh(Parts parts)
    : rank_(parts.rank),
      lease_(parts.lease + parts.lease / 4),
      reactor_(std::move(parts.reactor)),
      check_(*reactor_, check_interval(parts.lease), [this] { check_answers(); }),
      peers_(std::move(parts.peers)),
      host_routes_(std::move(parts.host_routes)),
      host_leaders_(std::move(parts.host_leaders)) {
    for (auto& each : peers_) {
        for (auto* const connection : {&each.control, &each.data}) {
            if (connection->is_open()) {
                watch(*connection);
            }
        }
    }
    data_connector_ = std::make_unique<DataConnector>(
        std::move(parts.maker),
        DataConnector::Options{
            .rank = rank_, .limit = parts.link_limit, .targets = std::move(parts.targets)},
        DataConnector::Handlers{
            .on_connected =
                [this](int rank, UniqueFd socket, std::string address) {
                    add_data_connection(rank, std::move(socket), std::move(address));
                },
            .is_connected = [this](int rank) { return peer(rank).data.is_open(); },
            .describe = [this](int rank) { return describe(rank); }});
}

void Mesh::add_data_connection(int rank, UniqueFd socket, std::string address) {
    auto& added = peer(rank);
    added.data = Connection(std::move(socket));
    watch(added.data);
    if (!address.empty()) {
        added.address = std::move(address);
    }
}

Mesh::~Mesh() {
    data_connector_->stop();
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

Error Mesh::end_of(int rank, const Connection& connection) const {
    if (connection.is_cut()) {
        const auto& own = peers_.at(static_cast<std::size_t>(rank_)).identity;
        const auto& other = peers_.at(static_cast<std::size_t>(rank)).identity;
        const auto seconds = std::chrono::ceil<std::chrono::seconds>(lease_).count();
        return {Errc::unavailable,
                "hosts " + own.host + " (" + to_string(connection.here()) + ") and " + other.host +
                    " (" + to_string(connection.there()) + ")" + std::string(kCutNotice) +
                    ": no answer on the connection between " + describe(rank_) + " and " +
                    describe(rank) + " for " + std::to_string(seconds) + " s"};
    }
    if (connection.error_number() == 0 || connection.error_number() == ECONNRESET ||
        connection.error_number() == EPIPE) {
        return {Errc::unavailable, describe(rank) + " has died"};
    }
    auto error = system_error("the connection with " + describe(rank) + " is broken",
                              connection.error_number());
    error.code = Errc::unavailable;
    return error;
}

void Mesh::watch(Connection& connection) {
    keep_alive(connection.descriptor(), lease_);
    connection.watch(*reactor_, check_);
}

void Mesh::check_answers() {
    bool goes_on = false;
    for (auto& each : peers_) {
        for (auto* const connection : {&each.control, &each.data}) {
            const bool waits = lease_.count() > 0 && connection->check_answers(lease_);
            goes_on = goes_on || waits;
        }
    }
    if (!goes_on) {
        check_.clear();
    }
}

void Mesh::close_in_child() const noexcept {
    data_connector_->close_in_child();
    for (const auto& peer : peers_) {
        (void)::close(peer.control.descriptor());
        (void)::close(peer.data.descriptor());
    }
}

}  // namespace hvd::coll::net
