// SPDX-License-Identifier: Apache-2.0
//
// The connections between the ranks of a world: each has one with rank 0 for control messages, and
// one for data with every other rank with which it has exchanged some. They are authenticated with
// the world's key, and use addresses that were found to work.
#pragma once

#include "collectives/alarm.hpp"
#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/reactor.hpp"
#include "collectives/rendezvous/store.hpp"
#include "collectives/rendezvous/world_key.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/connection.hpp"
#include "collectives/transport/tcp/connection_maker.hpp"
#include "collectives/transport/tcp/data_connector.hpp"
#include "collectives/transport/tcp/handshake.hpp"
#include "collectives/transport/tcp/host_route.hpp"
#include "collectives/transport/tcp/remedies.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace hvd::coll::net {

struct MeshOptions {
    int rank = 0;
    int size = 1;
    std::string host;       // for messages
    std::string prefix;     // of the keys in the store: a world's own
    std::string host_id{};  // the same for the ranks of one host, another elsewhere; empty: `host`
    WorldKey key{};         // proves that a connection is of this world: see share_world_key
    InterfaceFilter interfaces{};
    PortRange ports{};
    std::chrono::milliseconds link_limit{30'000};  // for a data connection that a rank waits for
    std::chrono::milliseconds lease{30'000};       // a host that does not answer for a quarter
                                                   // longer is cut off; 0: never
};

/// Thread: progress lock, but for `close_in_child`.
class Mesh final {
public:
    struct Peer {
        RankIdentity identity;
        std::string address;  // where the last connection went, "10.0.0.2:4711 (eth0)"; empty where
                              // the peer connected to this rank
        Connection control;   // of rank 0, or with rank 0
        Connection data;      // not open until both have requested it
    };

    /// Connects every rank with rank 0; the higher rank connects. All ranks of two hosts use the
    /// same addresses, which the lowest ranks there found to work. Returns once all control
    /// connections of this rank stand. Errors: timed_out (names the missing ranks), unavailable
    /// (rank, host, every address and why it did not work), invalid_argument (interfaces, ports).
    [[nodiscard]] static Result<std::unique_ptr<Mesh>> connect(Store& store,
                                                               const MeshOptions& options,
                                                               Deadline deadline);

    /// Waits up to a second for the peers' kernels to take what was sent.
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

    /// Sees to it that the data connection with the rank comes to be, while the reactor is
    /// dispatched. Both ranks must request it.
    void request_data_connection(int rank) { data_connector_->request(rank); }
    /// Why it will not come to be. Errors: timed_out (rank, address, limit), unavailable.
    [[nodiscard]] Status data_connection_status(int rank) const {
        return data_connector_->status(rank);
    }
    /// No data connection is needed any more: nothing listens any longer.
    void stop_accepting() { data_connector_->stop(); }
    /// Where this rank connects to a lower rank for data.
    [[nodiscard]] const std::vector<ListenAddress>& data_endpoints_of(int rank) const {
        return data_connector_->endpoints_of(rank);
    }
    /// Where ranks may still connect: nowhere once all have.
    [[nodiscard]] const std::vector<ListenAddress>& listening_at() const noexcept {
        return data_connector_->listening_at();
    }

    /// "rank 3 (pid 812 on host node2)".
    [[nodiscard]] std::string describe(int rank) const;

    /// Why the connection with the rank has ended, one of its two: that the rank has died, or that
    /// the two hosts do not reach each other any more.
    [[nodiscard]] Error end_of(int rank, const Connection& connection) const;

    /// By rank: the leader of its host, which is the lowest rank there.
    [[nodiscard]] const std::vector<int>& host_leaders() const noexcept { return host_leaders_; }

    /// To every other host.
    [[nodiscard]] const std::vector<HostRoute>& host_routes() const noexcept {
        return host_routes_;
    }

    /// Watches the connections. Its descriptor is readable when one of them is ready for something;
    /// `dispatch` tells it.
    [[nodiscard]] Reactor& reactor() noexcept { return *reactor_; }

    /// In a forked child: gives its copies of the sockets back, so that the peers see the end of
    /// the parent when it comes. Async-signal-safe; the mesh is of no use there afterwards.
    void close_in_child() const noexcept;

private:
    friend class MeshBuilder;
    struct Parts {
        int rank = 0;
        std::chrono::milliseconds link_limit{};
        std::chrono::milliseconds lease{};
        std::unique_ptr<Reactor> reactor;
        std::unique_ptr<ConnectionMaker> maker;
        std::vector<Peer> peers;
        std::vector<DataConnector::Target> targets;
        std::vector<HostRoute> host_routes;
        std::vector<int> host_leaders;
    };
    explicit Mesh(Parts parts);

    void add_data_connection(int rank, UniqueFd socket, std::string address);
    void watch(Connection& connection);
    void check_answers();

    int rank_;
    /// A quarter longer than the lease: a host that is gone altogether is the launcher's to tell.
    std::chrono::milliseconds lease_;
    std::unique_ptr<Reactor> reactor_;
    Alarm check_;              // while something that was sent is not acknowledged
    std::vector<Peer> peers_;  // by rank; the own entry has no connections
    std::vector<HostRoute> host_routes_;
    std::vector<int> host_leaders_;
    std::unique_ptr<DataConnector> data_connector_;
};

}  // namespace hvd::coll::net
