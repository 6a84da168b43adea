// SPDX-License-Identifier: Apache-2.0
//
// The connections between the ranks of a world: each has one with rank 0 for control messages, and
// one for data with every other rank with which it has exchanged some. Authenticated with a key
// that came through the store, by addresses that were found to work.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/reactor.hpp"
#include "collectives/rendezvous/store.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/connection.hpp"
#include "collectives/transport/tcp/connection_maker.hpp"
#include "collectives/transport/tcp/handshake.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
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
    std::chrono::milliseconds link_limit{30'000};  // for a data link that somebody waits for
};

/// What a connection that does not come to be ends with.
inline constexpr const char* kRemedy =
    "; a firewall, or see HOROVOD_NETWORK_INTERFACES and HOROVOD_PORT_RANGE";

/// The same where nobody listens at any address of a rank, which did.
inline constexpr const char* kHasLeft =
    "; it has left or is leaving: see what it printed; if nothing, a firewall rejects connections: "
    "see HOROVOD_NETWORK_INTERFACES and HOROVOD_PORT_RANGE";

/// How this host and another one reach each other.
struct HostRoute {
    std::string host;    // the other
    HostAddress here{};  // interface and address of this host
    IpAddress there{};
    bool is_told_here = false;  // of the two hosts this one has the lowest rank: it speaks for both
};

/// Thread: baton, but for `close_in_child`.
class Mesh final : private ConnectionMaker::Owner {
public:
    /// How a data link comes to be, and what has become of it.
    struct DataWay {
        std::vector<ListenAddress> doors{};  // of a lower rank: where to call it
        std::optional<IpAddress> here{};     // where a higher rank calls us; nothing: anywhere
        std::optional<ConnectionMaker::Clock::duration> wanted_at{};
        std::optional<Error> failure{};
    };

    struct Peer {
        RankIdentity identity;
        std::string address;  // where the last connection went, "10.0.0.2:4711 (eth0)"; empty where
                              // the peer connected to us
        Connection control;   // of rank 0, or with rank 0
        Connection data;      // not open until both have wanted it
        DataWay way;
    };

    /// Connects every rank with rank 0; who has the higher rank connects. All ranks of two hosts
    /// use the same addresses, which the lowest ranks there found to work. Returns once all
    /// control links of this rank stand. Errors: timed_out (who is missing), unavailable (rank,
    /// host, every address and why it did not work), invalid_argument (interfaces, ports).
    [[nodiscard]] static Result<std::unique_ptr<Mesh>> meet(Store& store,
                                                            const MeshOptions& options,
                                                            Deadline deadline);

    /// Says what is still to be said: waits up to a second for the peers' kernels to take it.
    ~Mesh() override;
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }
    /// Not for the own rank.
    [[nodiscard]] Peer& peer(int rank) { return peers_.at(static_cast<std::size_t>(rank)); }
    [[nodiscard]] const Peer& peer(int rank) const {
        return peers_.at(static_cast<std::size_t>(rank));
    }

    /// Sees to it that the data link with the rank comes to be, while the reactor is dispatched:
    /// the higher rank of the two calls, the lower one waits for that. Both must want it.
    void request_data_connection(int rank);
    /// Why it will not come to be. Errors: timed_out (rank, address, limit), unavailable.
    [[nodiscard]] Status data_connection_status(int rank) const;
    /// Nobody wants more of them: nothing listens any longer.
    void stop_accepting();
    /// Where ranks that may still call are heard: nowhere once all have.
    [[nodiscard]] const std::vector<ListenAddress>& listening_at() const noexcept {
        return maker_->listening_at();
    }

    /// "rank 3 (pid 812 on host node2)".
    [[nodiscard]] std::string describe(int rank) const;

    /// Whether every host has as many ranks.
    [[nodiscard]] bool is_homogeneous() const noexcept { return is_homogeneous_; }

    /// To every other host.
    [[nodiscard]] const std::vector<HostRoute>& host_routes() const noexcept { return host_ways_; }

    /// What the links are watched by. Its descriptor is readable when one of them has news;
    /// `dispatch` tells them.
    [[nodiscard]] Reactor& reactor() noexcept { return *reactor_; }

    /// In a forked child: gives its copies of the sockets back, so that the peers see the end of
    /// the parent when it comes. Async-signal-safe; the mesh is of no use there afterwards.
    void close_in_child() const noexcept;

private:
    friend class MeshBuilder;
    struct Parts {
        int rank = 0;
        std::chrono::milliseconds link_limit{};
        std::unique_ptr<Reactor> reactor;
        std::unique_ptr<ConnectionMaker> maker;
        std::vector<Peer> peers;
        std::vector<HostRoute> host_routes;
        bool is_homogeneous = true;
    };
    explicit Mesh(Parts parts);

    // In mesh_links.cpp, with the four above.
    [[nodiscard]] bool admits(int rank, Purpose purpose) const override;
    void on_made(ConnectionMaker::Made made) override;
    void on_refused(int rank, const ConnectionMaker::Refusal& refusal) override;
    void on_accept_failed(const Error& why) override;
    [[nodiscard]] bool on_tick() override;
    void close_idle_listeners();
    [[nodiscard]] bool is_awaited(int rank) const;
    [[nodiscard]] std::chrono::milliseconds limit_with(int rank) const;
    [[nodiscard]] Error late(int rank) const;

    int rank_;
    std::chrono::milliseconds link_limit_;
    std::unique_ptr<Reactor> reactor_;
    std::vector<Peer> peers_;  // by rank; the own entry has no links
    std::vector<HostRoute> host_ways_;
    bool is_homogeneous_;
    std::unique_ptr<ConnectionMaker> maker_;
    bool wants_more_ = true;
};

}  // namespace hvd::coll::net
