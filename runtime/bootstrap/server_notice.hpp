// SPDX-License-Identifier: Apache-2.0
//
// The value that rank 0 puts into a launcher's key-value store, so that the others find its store
// server. Pure.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/address.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::rt {

struct ServerNotice {
    std::uint16_t port = 0;
    std::vector<std::byte> secret{};
    std::vector<coll::net::IpAddress> ips{};

    friend bool operator==(const ServerNotice&, const ServerNotice&) = default;
};

/// "4711,5EC3E7,10.0.0.1,fd00::1": no blank and no '=', below 1 KiB, as PMI-1 wants it.
[[nodiscard]] std::string encode_notice(const ServerNotice& notice);
/// Errors: internal for a malformed text.
[[nodiscard]] Result<ServerNotice> decode_notice(std::string_view text);

/// The addresses to tell: the faster interfaces first, not too many; loopback only where there is
/// nothing else.
[[nodiscard]] std::vector<coll::net::IpAddress> public_addresses(
    std::span<const coll::net::HostAddress> all);

/// Those of the range, not too many; {0} for any.
[[nodiscard]] std::vector<std::uint16_t> ports_of(const coll::net::PortRange& range);

}  // namespace hvd::rt
