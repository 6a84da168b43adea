// SPDX-License-Identifier: Apache-2.0
//
// Finds the addresses by which each two hosts reach each other. The leaders of all hosts connect;
// the addresses by which they do hold for the other ranks of their hosts.
#pragma once

#include "collectives/rendezvous/store.hpp"
#include "collectives/transport/tcp/host_route.hpp"
#include "collectives/transport/tcp/rank_record.hpp"
#include "collectives/transport/tcp/start_connections.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::coll::net {

class RouteFinder {
public:
    /// Of the world: all by rank, the own one included. The references outlive it.
    struct World {
        int rank = 0;
        const std::vector<RankRecord>& records;
        const std::vector<int>& leaders;
        const std::vector<HostAddress>& own_addresses;
        const std::string& prefix;  // of the keys in the store
    };

    RouteFinder(const World& world, StartConnections& connections)
        : world_(world), connections_(connections) {}

    /// Errors: timed_out, unavailable.
    [[nodiscard]] Status find(Store& store, Deadline deadline);

    [[nodiscard]] bool is_leader() const { return own_leader() == world_.rank; }

    /// Where to connect to the rank, a lower one. Errors: unavailable.
    [[nodiscard]] Result<std::vector<ListenAddress>> endpoints_of(int rank) const;
    /// This host's address on the route to the rank; nothing where none is known.
    [[nodiscard]] std::optional<IpAddress> own_address_for(int rank) const;
    [[nodiscard]] std::vector<HostRoute> host_routes() const;

private:
    [[nodiscard]] int own_leader() const;
    [[nodiscard]] const RankRecord& record(int rank) const;
    [[nodiscard]] Status find_for_others(Store& store);
    [[nodiscard]] Status probe_hosts();
    [[nodiscard]] Status read_from_leader(Store& store, Deadline deadline);
    [[nodiscard]] const Route* route_to(int rank) const;
    [[nodiscard]] std::string key_of(int leader) const;

    World world_;
    StartConnections& connections_;
    std::vector<Route> routes_;  // to each host, the own one included
};

}  // namespace hvd::coll::net
