// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/rank_record.hpp"

#include "collectives/base/fields.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace hvd::coll::net {

void fields(auto& io, Is<IpAddress> auto& ip) {
    io(ip.is_v6, ip.bytes);
}
void fields(auto& io, Is<HostAddress> auto& address) {
    io(address.interface, address.ip, address.prefix, address.speed);
}
void fields(auto& io, Is<ListenAddress> auto& endpoint) {
    io(endpoint.at, endpoint.port);
}
void fields(auto& io, Is<RankRecord> auto& record) {
    io(record.host, record.pid, record.network, record.endpoints, record.host_id);
}
void fields(auto& io, Is<Route> auto& route) {
    io(route.leader, route.here, route.there);
}
void fields(auto& io, Is<Routes> auto& routes) {
    io(routes.routes, routes.failure);
}

std::vector<std::byte> encode(const RankRecord& record) {
    return encode_fields(record);
}

Result<RankRecord> decode_rank_record(std::span<const std::byte> bytes) {
    return decode_fields<RankRecord>(bytes, "addresses of a rank");
}

std::vector<std::byte> encode(const std::vector<RankRecord>& records) {
    return encode_fields(records);
}

Result<std::vector<RankRecord>> decode_rank_records(std::span<const std::byte> bytes) {
    return decode_fields<std::vector<RankRecord>>(bytes, "addresses of ranks");
}

std::vector<std::byte> encode(const Routes& routes) {
    return encode_fields(routes);
}

Result<Routes> decode_routes(std::span<const std::byte> bytes) {
    return decode_fields<Routes>(bytes, "addresses between hosts");
}

std::vector<int> leaders_of(std::span<const RankRecord> records) {
    std::map<std::string_view, int> lowest;
    std::vector<int> leaders;
    leaders.reserve(records.size());
    for (const auto& record : records) {
        const auto rank = static_cast<int>(leaders.size());
        leaders.push_back(lowest.emplace(record.host_id, rank).first->second);
    }
    return leaders;
}

std::vector<ListenAddress> candidates(const RankRecord& own,
                                      std::span<const HostAddress> own_addresses,
                                      const RankRecord& peer) {
    const bool same_loopback = own.network == peer.network && !own.network.empty();
    const auto is_own = [&](const IpAddress& ip) {
        return std::ranges::find(own_addresses, ip, &HostAddress::ip) != own_addresses.end();
    };
    const auto is_near = [&](const HostAddress& address) {
        return std::ranges::any_of(own_addresses, [&](const HostAddress& mine) {
            return mine.prefix == address.prefix &&
                   same_network(mine.ip, address.ip, address.prefix);
        });
    };
    std::vector<ListenAddress> order;
    for (const auto& endpoint : peer.endpoints) {
        if (same_loopback || (!is_loopback(endpoint.at.ip) && !is_own(endpoint.at.ip))) {
            order.push_back(endpoint);
        }
    }
    std::ranges::stable_sort(order, {}, [&](const ListenAddress& endpoint) {
        return std::tuple(!is_loopback(endpoint.at.ip), !is_near(endpoint.at), -endpoint.at.speed,
                          endpoint.at.ip.is_v6);
    });
    return order;
}

}  // namespace hvd::coll::net
