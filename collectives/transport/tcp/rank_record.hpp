// SPDX-License-Identifier: Apache-2.0
//
// The messages of ranks about their addresses. Pure.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/address.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hvd::coll::net {

/// A rank as the others see it.
struct RankRecord {
    std::string host;
    std::int32_t pid = 0;
    std::string network;  // equal where two ranks see the same loopback
    std::vector<ListenAddress> endpoints;
    std::string host_id{};  // equal where two ranks are on one host: one agent has started them

    friend bool operator==(const RankRecord&, const RankRecord&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const RankRecord& record);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<RankRecord> decode_rank_record(std::span<const std::byte> bytes);

/// Those of several ranks.
[[nodiscard]] std::vector<std::byte> encode(const std::vector<RankRecord>& records);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<std::vector<RankRecord>> decode_rank_records(std::span<const std::byte> bytes);

/// The peer's endpoints in the order in which they are worth a try: loopback where both see the
/// same one, and nowhere else; then networks that both are in, then others; the faster first. An
/// address that we have too (every host has the same docker0) is not the peer's: left out.
[[nodiscard]] std::vector<ListenAddress> candidates(const RankRecord& own,
                                                    std::span<const HostAddress> own_addresses,
                                                    const RankRecord& peer);

/// The addresses by which two hosts reach each other: all pairs of their ranks use the same.
struct Route {
    int leader = 0;     // lowest rank of the other host
    IpAddress here{};   // of this host
    IpAddress there{};  // of the other one

    friend bool operator==(const Route&, const Route&) = default;
};

/// From the leader of a host to the other ranks there: the routes, or why there is none.
struct Routes {
    std::vector<Route> routes{};
    std::string failure{};  // empty: none

    friend bool operator==(const Routes&, const Routes&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const Routes& routes);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<Routes> decode_routes(std::span<const std::byte> bytes);

/// By rank: the leader of its host, which is the lowest rank there.
[[nodiscard]] std::vector<int> leaders_of(std::span<const RankRecord> records);

}  // namespace hvd::coll::net
