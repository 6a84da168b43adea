// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a host, and those that the user allows. All but `host_addresses` and
// `network_identity` is pure.
#pragma once

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

/// Equal for processes that see the same loopback interface; empty where the kernel does not tell.
[[nodiscard]] std::string network_identity();

/// The addresses that the user allows: HOROVOD_NETWORK_INTERFACES, a list of names, shell patterns
/// of names, addresses and networks ("eth0,ib*,10.0.0.0/8"). Empty: everything.
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

/// The form that bind and connect take, with `size`.
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
