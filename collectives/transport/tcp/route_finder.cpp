// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/route_finder.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::net {

int RouteFinder::own_leader() const {
    return world_.leaders[static_cast<std::size_t>(world_.rank)];
}

const RankRecord& RouteFinder::record(int rank) const {
    return world_.records[static_cast<std::size_t>(rank)];
}

std::string RouteFinder::key_of(int leader) const {
    return world_.prefix + "routes/" + std::to_string(leader);
}

Status RouteFinder::find(Store& store, Deadline deadline) {
    HVD_TRY_STATUS(is_leader() ? find_for_others(store) : read_from_leader(store, deadline));
    // No rank connects to the other addresses any more.
    connections_.maker().acceptor().keep_listeners([this](const ListenAddress& endpoint) {
        return std::ranges::find(routes_, endpoint.at.ip, &Route::here) != routes_.end();
    });
    return ok();
}

Status RouteFinder::find_for_others(Store& store) {
    auto probed = probe_hosts();
    const bool is_alone = std::ranges::count(world_.leaders, world_.rank) == 1;
    if (!is_alone) {
        // The others wait for it, also where there is nothing to tell.
        HVD_TRY_STATUS(store.put(
            key_of(world_.rank),
            encode(Routes{.routes = routes_, .failure = probed ? "" : probed.error().message})));
    }
    return probed;
}

Status RouteFinder::probe_hosts() {
    std::vector<int> others;
    for (int rank = 0; rank < static_cast<int>(world_.leaders.size()); ++rank) {
        if (rank != world_.rank && world_.leaders[static_cast<std::size_t>(rank)] == rank) {
            others.push_back(rank);
        }
    }
    for (const int rank : others) {
        if (rank < world_.rank) {
            HVD_TRY(auto endpoints, endpoints_of(rank));
            connections_.connect(rank, std::move(endpoints));
        }
    }
    HVD_TRY_STATUS(connections_.wait_for(others));
    for (const int rank : others) {
        const int socket = connections_.socket(rank, connections_.purpose_with(rank)).get();
        HVD_TRY(const auto here, own_end(socket));
        HVD_TRY(const auto there, far_end(socket));
        connections_.socket(rank, Purpose::probe).reset();
        routes_.push_back({.leader = rank, .here = here, .there = there});
    }
    // Among themselves the ranks of a host need no search.
    const auto& own = record(world_.rank);
    if (const auto nearest = candidates(own, world_.own_addresses, own); !nearest.empty()) {
        const auto& ip = nearest.front().at.ip;
        routes_.push_back({.leader = world_.rank, .here = ip, .there = ip});
    }
    return ok();
}

Status RouteFinder::read_from_leader(Store& store, Deadline deadline) {
    const auto bytes = store.get(key_of(own_leader()), deadline);
    if (!bytes) {
        return Error(bytes.error())
            .context("no routes to other hosts from " + connections_.describe(own_leader()));
    }
    HVD_TRY(auto found, decode_routes(*bytes));
    if (!found.failure.empty()) {
        return Error{Errc::unavailable, std::move(found.failure)};
    }
    routes_ = std::move(found.routes);
    return ok();
}

const Route* RouteFinder::route_to(int rank) const {
    const auto leader = world_.leaders[static_cast<std::size_t>(rank)];
    const auto found = std::ranges::find(routes_, leader, &Route::leader);
    return found == routes_.end() ? nullptr : &*found;
}

std::optional<IpAddress> RouteFinder::own_address_for(int rank) const {
    const Route* route = route_to(rank);
    return route == nullptr ? std::nullopt : std::optional(route->here);
}

/// By the route to its host; or, before that is known, and where the host is seen by another
/// address than its own (behind NAT), at all that may be worth a try.
Result<std::vector<ListenAddress>> RouteFinder::endpoints_of(int rank) const {
    const auto& peer = record(rank);
    if (const Route* route = route_to(rank)) {
        for (const auto& endpoint : peer.endpoints) {
            if (endpoint.at.ip == route->there) {
                return std::vector{endpoint};
            }
        }
    }
    auto endpoints = candidates(record(world_.rank), world_.own_addresses, peer);
    if (!endpoints.empty()) {
        return endpoints;
    }
    std::vector<std::string> offered;
    for (const auto& endpoint : peer.endpoints) {
        offered.push_back(to_string(endpoint));
    }
    return Error{Errc::unavailable, connections_.describe(rank) + " has no address that host " +
                                        record(world_.rank).host + " could reach, only " +
                                        join(offered, ", ") + "; see HOROVOD_NETWORK_INTERFACES"};
}

std::vector<HostRoute> RouteFinder::host_routes() const {
    std::vector<HostRoute> all;
    for (const auto& route : routes_) {
        if (route.leader == own_leader()) {
            continue;
        }
        const auto here = std::ranges::find(world_.own_addresses, route.here, &HostAddress::ip);
        all.push_back({.host = record(route.leader).host,
                       .here = here == world_.own_addresses.end()
                                   ? HostAddress{.interface = {}, .ip = route.here}
                                   : *here,
                       .there = route.there,
                       .is_reported_here = own_leader() < route.leader});
    }
    return all;
}

}  // namespace hvd::coll::net
