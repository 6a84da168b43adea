// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/address.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <arpa/inet.h>

namespace hvd::coll::net {
namespace {

constexpr int bits_of(const IpAddress& address) noexcept {
    return address.is_v6 ? 128 : 32;
}

Error invalid(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
    const auto port = parse_number<std::uint16_t>(text);
    return port && *port != 0 ? port : std::nullopt;
}

std::string describe(const std::vector<HostAddress>& addresses) {
    std::vector<std::string> parts;
    parts.reserve(addresses.size());
    for (const auto& address : addresses) {
        parts.push_back(address.interface + " " + to_string(address.ip));
    }
    return join(parts, ", ");
}

}  // namespace

std::optional<IpAddress> parse_ip(std::string_view text) {
    const std::string terminated(text);
    IpAddress address;
    if (::inet_pton(AF_INET, terminated.c_str(), address.bytes.data()) == 1) {
        return address;
    }
    address = IpAddress{.is_v6 = true};
    if (::inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) {
        return address;
    }
    return std::nullopt;
}

std::string to_string(const IpAddress& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = address.is_v6 ? AF_INET6 : AF_INET;
    (void)::inet_ntop(family, address.bytes.data(), text.data(), text.size());
    return text.data();
}

bool is_loopback(const IpAddress& address) noexcept {
    if (!address.is_v6) {
        return address.bytes[0] == 127;
    }
    return std::all_of(address.bytes.begin(), address.bytes.end() - 1,
                       [](std::uint8_t byte) { return byte == 0; }) &&
           address.bytes.back() == 1;
}

bool same_network(const IpAddress& a, const IpAddress& b, int prefix) noexcept {
    if (a.is_v6 != b.is_v6) {
        return false;
    }
    const auto bits = static_cast<std::size_t>(std::clamp(prefix, 0, bits_of(a)));
    for (std::size_t bit = 0; bit < bits; ++bit) {
        const auto mask = static_cast<std::uint8_t>(0x80U >> (bit % 8));
        if ((a.bytes.at(bit / 8) & mask) != (b.bytes.at(bit / 8) & mask)) {
            return false;
        }
    }
    return true;
}

Result<InterfaceFilter> parse_interface_filter(std::string_view text) {
    InterfaceFilter filter;
    filter.text = trim(text);
    if (filter.text.empty()) {
        return filter;
    }
    for (const auto each : split(filter.text, ',')) {
        const auto part = trim(each);
        if (part.empty()) {
            return invalid("expected names, patterns, addresses or networks with commas between");
        }
        const auto slash = part.find('/');
        const auto ip = parse_ip(part.substr(0, slash));
        if (slash == std::string_view::npos && !ip) {
            filter.names.emplace_back(part);
            continue;
        }
        const auto prefix = slash == std::string_view::npos
                                ? std::optional(bits_of(*ip))
                                : parse_number<int>(part.substr(slash + 1));
        if (!ip || !prefix || *prefix < 0 || *prefix > bits_of(*ip)) {
            return invalid("'" + std::string(part) + "' is no network such as 10.0.0.0/8");
        }
        filter.networks.push_back({*ip, *prefix});
    }
    return filter;
}

Result<std::vector<HostAddress>> allowed_addresses(std::vector<HostAddress> all,
                                                   const InterfaceFilter& filter) {
    if (filter.names.empty() && filter.networks.empty()) {
        return all;
    }
    std::vector<HostAddress> allowed;
    std::ranges::copy_if(all, std::back_inserter(allowed), [&](const HostAddress& address) {
        return std::ranges::any_of(filter.names,
                                   [&](const std::string& name) {
                                       return matches_glob(address.interface, name);
                                   }) ||
               std::ranges::any_of(filter.networks, [&](const InterfaceFilter::Network& network) {
                   return same_network(address.ip, network.ip, network.prefix);
               });
    });
    if (allowed.empty()) {
        return invalid("HOROVOD_NETWORK_INTERFACES='" + filter.text +
                       "' allows none of this host's addresses: " + describe(all));
    }
    return allowed;
}

Result<PortRange> parse_port_range(std::string_view text) {
    const auto whole = trim(text);
    const auto dash = whole.find('-');
    const auto first = parse_port(trim(whole.substr(0, dash)));
    const auto last =
        dash == std::string_view::npos ? first : parse_port(trim(whole.substr(dash + 1)));
    if (!first || !last || *first > *last) {
        return invalid("expected ports A-B with 1 <= A <= B <= 65535");
    }
    return PortRange{*first, *last};
}

std::string to_string(const ListenAddress& endpoint) {
    const auto ip = to_string(endpoint.at.ip);
    return (endpoint.at.ip.is_v6 ? "[" + ip + "]" : ip) + ":" + std::to_string(endpoint.port);
}

IpAddress to_ip(const sockaddr* address) noexcept {
    IpAddress ip{.is_v6 = address->sa_family == AF_INET6};
    if (ip.is_v6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, address, sizeof v6);
        std::memcpy(ip.bytes.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    } else {
        sockaddr_in v4{};
        std::memcpy(&v4, address, sizeof v4);
        std::memcpy(ip.bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
    }
    return ip;
}

SocketAddress to_socket_address(const IpAddress& ip, std::uint16_t port) noexcept {
    SocketAddress address;
    if (ip.is_v6) {
        sockaddr_in6 v6{};
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        std::memcpy(&v6.sin6_addr, ip.bytes.data(), sizeof v6.sin6_addr);
        std::memcpy(&address.storage, &v6, sizeof v6);
        address.size = sizeof v6;
    } else {
        sockaddr_in v4{};
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        std::memcpy(&v4.sin_addr, ip.bytes.data(), sizeof v4.sin_addr);
        std::memcpy(&address.storage, &v4, sizeof v4);
        address.size = sizeof v4;
    }
    return address;
}

}  // namespace hvd::coll::net
