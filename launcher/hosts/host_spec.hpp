// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

inline constexpr int kMaxSlots = 65'536;  // of one host; more is a typing error

/// A place for ranks, as the user wrote it.
struct Host {
    std::string name;                   // IPv6 literals keep their brackets: "[fe80::1]"
    std::optional<int> slots;           // unset: as many as the host turns out to have
    std::optional<std::string> user{};  // unset: what ~/.ssh/config says, or our own
    std::optional<int> port{};          // unset: what ~/.ssh/config says, or 22

    friend bool operator==(const Host&, const Host&) = default;
};

/// Reads "a:4,b,[fe80::1]:2". A host written twice counts once, with its slots summed, at its first
/// position. Errors name the item: "host 'a:': the number of slots is missing, ...".
[[nodiscard]] Result<std::vector<Host>> parse_hosts(std::string_view text);

/// Reads one item of such a list: "a", "a:4", "[fe80::1]:2". Errors as above.
[[nodiscard]] Result<Host> parse_host(std::string_view item);

/// Adds a host to a list in which each name stands once. Errors: too many slots together, or a name
/// that is written once with and once without a number.
[[nodiscard]] Status add_host(std::vector<Host>& hosts, Host host);

}  // namespace hvd::launch
