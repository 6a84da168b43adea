// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/server_notice.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <optional>

namespace hvd::rt {
namespace {

using coll::net::HostAddress;
using coll::net::IpAddress;

constexpr std::size_t kMostAddresses = 12;
constexpr int kMostPorts = 256;
constexpr std::string_view kDigits = "0123456789abcdef";

Error malformed() {
    return {Errc::internal, "rank 0 left a malformed address with the launcher"};
}

std::optional<std::vector<std::byte>> from_hex(std::string_view text) {
    std::vector<std::byte> bytes;
    for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
        const auto high = kDigits.find(text[at]);
        const auto low = kDigits.find(text[at + 1]);
        if (high == std::string_view::npos || low == std::string_view::npos) {
            return {};
        }
        bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
    return text.size() % 2 == 0 ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace

std::string encode_notice(const ServerNotice& notice) {
    auto text = std::to_string(notice.port) + ",";
    for (const auto byte : notice.secret) {
        text += kDigits[std::to_integer<std::size_t>(byte >> 4U)];
        text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    for (const auto& ip : notice.ips) {
        text += "," + to_string(ip);
    }
    return text;
}

Result<ServerNotice> decode_notice(std::string_view text) {
    const auto parts = split(text, ',');
    if (parts.size() < 3) {
        return malformed();
    }
    const auto port = parse_number<std::uint16_t>(parts[0]);
    auto secret = from_hex(parts[1]);
    if (!port || *port == 0 || !secret || secret->empty()) {
        return malformed();
    }
    ServerNotice notice{.port = *port, .secret = std::move(*secret), .ips = {}};
    for (std::size_t at = 2; at < parts.size(); ++at) {
        const auto ip = coll::net::parse_ip(parts[at]);
        if (!ip) {
            return malformed();
        }
        notice.ips.push_back(*ip);
    }
    return notice;
}

std::vector<IpAddress> public_addresses(std::span<const HostAddress> all) {
    std::vector<HostAddress> sorted(all.begin(), all.end());
    std::ranges::stable_sort(sorted, [](const HostAddress& a, const HostAddress& b) {
        return is_loopback(a.ip) != is_loopback(b.ip) ? is_loopback(b.ip) : a.speed > b.speed;
    });
    std::vector<IpAddress> ips;
    for (const auto& address : sorted) {
        if (ips.size() < kMostAddresses && (!is_loopback(address.ip) || ips.empty())) {
            ips.push_back(address.ip);
        }
    }
    return ips;
}

std::vector<std::uint16_t> ports_of(const coll::net::PortRange& range) {
    std::vector<std::uint16_t> ports;
    const int last = std::min<int>(range.last, range.first + kMostPorts - 1);
    for (int port = range.first; port <= last; ++port) {
        ports.push_back(static_cast<std::uint16_t>(port));
    }
    return ports;
}

}  // namespace hvd::rt
