// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// A place for ranks, as the user wrote it.
struct Host {
    std::string name;          // IPv6 literals keep their brackets: "[fe80::1]"
    std::optional<int> slots;  // unset: as many as the host turns out to have

    friend bool operator==(const Host&, const Host&) = default;
};

/// Reads "a:4,b,[fe80::1]:2". A host written twice counts once, with its slots summed, at its first
/// position. Errors name the item: "host 'a:': the number of slots is missing, ...".
[[nodiscard]] Result<std::vector<Host>> parse_hosts(std::string_view text);

}  // namespace hvd::launch
