// SPDX-License-Identifier: Apache-2.0
//
// The connections between the ranks of a world: every pair has one for control messages and one for
// data. Authenticated with a key that came through the store, by addresses that were found to work.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/net/address.hpp"
#include "collectives/net/handshake.hpp"
#include "collectives/net/link.hpp"
#include "collectives/reactor.hpp"
#include "collectives/rendezvous/store.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace hvd::coll::net {

struct MeshOptions {
    int rank = 0;
    int size = 1;
    std::string host;    // for messages
    std::string prefix;  // of the keys in the store: a world's own
    std::string home{};  // the same for the ranks of one host, another elsewhere; empty: `host`
    InterfaceFilter interfaces{};
    PortRange ports{};
};

/// How this host and another one reach each other.
struct HostWay {
    std::string host;    // the other
    HostAddress here{};  // interface and address of this host
    IpAddress there{};
    bool is_told_here = false;  // of the two hosts this one has the lowest rank: it speaks for both
};

/// Thread: baton, but for `close_in_child`.
class Mesh {
public:
    struct Peer {
        LinkIdentity identity;
        std::string address;  // where the connections go, "10.0.0.2:4711 (eth0)"; empty where the
                              // peer connected to us
        Link control;
        Link data;
    };

    /// Connects every rank with every other; who has the higher rank connects. All ranks of two
    /// hosts use the same addresses, which the lowest ranks there found to work. Returns once all
    /// connections of this rank stand; nothing listens any more then. Errors: timed_out (who is
    /// missing), unavailable (rank, host, every address and why it did not work), invalid_argument
    /// (interfaces, ports).
    [[nodiscard]] static Result<std::unique_ptr<Mesh>> meet(Store& store,
                                                            const MeshOptions& options,
                                                            Deadline deadline);

    /// Says what is still to be said: waits up to a second for the peers' kernels to take it.
    ~Mesh();
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }
    /// Not for the own rank.
    [[nodiscard]] Peer& peer(int rank) { return peers_.at(static_cast<std::size_t>(rank)); }
    [[nodiscard]] const Peer& peer(int rank) const {
        return peers_.at(static_cast<std::size_t>(rank));
    }

    /// "rank 3 (pid 812 on host node2)".
    [[nodiscard]] std::string describe(int rank) const;

    /// To every other host.
    [[nodiscard]] const std::vector<HostWay>& host_ways() const noexcept { return host_ways_; }

    /// What the links are watched by. Its descriptor is readable when one of them has news;
    /// `dispatch` tells them.
    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }

    /// In a forked child: gives its copies of the sockets back, so that the peers see the end of
    /// the parent when it comes. Async-signal-safe; the mesh is of no use there afterwards.
    void close_in_child() const noexcept;

private:
    friend class Meeting;
    Mesh(int rank, std::vector<Peer> peers, std::vector<HostWay> host_ways);

    int rank_;
    Reactor reactor_;
    std::vector<Peer> peers_;  // by rank; the own entry is empty
    std::vector<HostWay> host_ways_;
};

}  // namespace hvd::coll::net
