// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a host: which there are, which the user wants, and which of a peer's to try
// first. All but `host_addresses` is pure.
#pragma once

#include "collectives/base/bytes.hpp"
#include "collectives/base/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

namespace hvd::coll::net {

/// An IPv4 or IPv6 address without a port.
struct IpAddress {
    bool is_v6 = false;
    std::array<std::uint8_t, 16> bytes{};  // of IPv4 the first four count, the others are 0

    friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

/// "10.0.0.1" or "fd00::1"; nothing for anything else, names included.
[[nodiscard]] std::optional<IpAddress> parse_ip(std::string_view text);
[[nodiscard]] std::string to_string(const IpAddress& address);
[[nodiscard]] bool is_loopback(const IpAddress& address) noexcept;

/// Whether both lie in the network whose first `prefix` bits they share.
[[nodiscard]] bool same_network(const IpAddress& a, const IpAddress& b, int prefix) noexcept;

/// One address of this host.
struct HostAddress {
    std::string interface;
    IpAddress ip;
    int prefix = 0;          // bits of the network
    std::int32_t speed = 0;  // megabits per second as the kernel tells; 0: it does not

    friend bool operator==(const HostAddress&, const HostAddress&) = default;
};

/// Those of all interfaces that are up, but for link-local IPv6 ones, which mean nothing on another
/// host. Errors: unavailable.
[[nodiscard]] Result<std::vector<HostAddress>> host_addresses();

/// What only those have in common who see the same loopback interface; empty where the kernel does
/// not tell.
[[nodiscard]] std::string network_identity();

/// What the user allows: HOROVOD_NETWORK_INTERFACES, a list of names, shell patterns of names,
/// addresses and networks ("eth0,ib*,10.0.0.0/8"). Empty: everything.
struct InterfaceFilter {
    struct Network {
        IpAddress ip;
        int prefix = 0;

        friend bool operator==(const Network&, const Network&) = default;
    };

    std::string text{};  // as the user wrote it
    std::vector<std::string> names{};
    std::vector<Network> networks{};

    friend bool operator==(const InterfaceFilter&, const InterfaceFilter&) = default;
};

/// Errors: invalid_argument that names the part.
[[nodiscard]] Result<InterfaceFilter> parse_interface_filter(std::string_view text);

/// The allowed ones. Errors: invalid_argument when none is, with what there is.
[[nodiscard]] Result<std::vector<HostAddress>> allowed_addresses(std::vector<HostAddress> all,
                                                                 const InterfaceFilter& filter);

/// Ports that may be listened on: HOROVOD_PORT_RANGE, "A-B" or "A". 0-0: whatever is free.
struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;

    friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// Errors: invalid_argument.
[[nodiscard]] Result<PortRange> parse_port_range(std::string_view text);

/// Where a rank listens.
struct ListenAddress {
    HostAddress at;
    std::uint16_t port = 0;

    friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

/// "10.0.0.1:4711", "[fd00::1]:4711".
[[nodiscard]] std::string to_string(const ListenAddress& endpoint);

/// What a rank tells the others about itself.
struct RankRecord {
    std::string host;
    std::int32_t pid = 0;
    std::string network;  // equal where two ranks see the same loopback
    std::vector<ListenAddress> endpoints;
    std::string home{};  // equal where two ranks are of one host: one agent has started them

    friend bool operator==(const RankRecord&, const RankRecord&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const RankRecord& record);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<RankRecord> decode_rank_record(std::span<const std::byte> bytes);

/// Those of several ranks.
[[nodiscard]] std::vector<std::byte> encode(std::span<const RankRecord> records);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<std::vector<RankRecord>> decode_rank_records(std::span<const std::byte> bytes);

/// The peer's endpoints in the order in which they are worth a try: loopback where both see the
/// same one, and nowhere else; then networks that both are in, then others; the faster first. An
/// address that we have too (every host has the same docker0) is not the peer's: left out.
[[nodiscard]] std::vector<ListenAddress> candidates(const RankRecord& own,
                                                    std::span<const HostAddress> own_addresses,
                                                    const RankRecord& peer);

/// By which addresses two hosts reach each other: all pairs of their ranks use the same.
struct Way {
    int scout = 0;      // lowest rank of the other host
    IpAddress here{};   // of this host
    IpAddress there{};  // of the other one

    friend bool operator==(const Way&, const Way&) = default;
};

/// What the scout of a host tells the other ranks there: the ways, or why there is none.
struct Ways {
    std::vector<Way> ways{};
    std::string failure{};  // empty: none

    friend bool operator==(const Ways&, const Ways&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const Ways& ways);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<Ways> decode_ways(std::span<const std::byte> bytes);

/// By rank: the scout of its host, which is the lowest rank there.
[[nodiscard]] std::vector<int> scouts_of(std::span<const RankRecord> records);

/// As the kernel wants it. `size` is what bind and connect take.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;

    [[nodiscard]] const sockaddr* get() const noexcept {
        return reinterpret_cast<const sockaddr*>(&storage);
    }
};
[[nodiscard]] SocketAddress to_socket_address(const IpAddress& ip, std::uint16_t port) noexcept;
/// Not for other families than the two.
[[nodiscard]] IpAddress to_ip(const sockaddr* address) noexcept;

}  // namespace hvd::coll::net
