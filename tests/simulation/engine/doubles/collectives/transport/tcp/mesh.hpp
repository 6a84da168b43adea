// SPDX-License-Identifier: Apache-2.0
//
// In the place of the shipped header: control connections that are there from the start, over
// sockets of the simulation.
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/reactor.hpp"
#include "collectives/transport/tcp/connection.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hvd::coll::net {

class Mesh {
public:
    struct Peer {
        Connection control;
    };

    /// `sockets`: by rank; -1 where there is no connection.
    Mesh(int rank, const std::vector<int>& sockets) : rank_(rank), peers_(sockets.size()) {
        for (std::size_t peer = 0; peer < sockets.size(); ++peer) {
            if (sockets[peer] >= 0) {
                peers_[peer].control = Connection(UniqueFd(sockets[peer]));
                peers_[peer].control.watch(reactor_);
            }
        }
    }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }
    [[nodiscard]] Peer& peer(int rank) { return peers_.at(static_cast<std::size_t>(rank)); }
    [[nodiscard]] const Peer& peer(int rank) const {
        return peers_.at(static_cast<std::size_t>(rank));
    }
    // NOLINTNEXTLINE(readability-convert-member-functions-to-static): as the shipped class
    [[nodiscard]] std::string describe(int rank) const { return "rank " + std::to_string(rank); }
    [[nodiscard]] Error end_of(int rank, const Connection& /*connection*/) const {
        return {Errc::unavailable, describe(rank) + " has died"};
    }
    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }

private:
    int rank_;
    Reactor reactor_;
    std::vector<Peer> peers_;
};

}  // namespace hvd::coll::net
