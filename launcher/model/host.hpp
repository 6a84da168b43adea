// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace hvd::launch {

inline constexpr int kMaxSlots = 65'536;  // of one host; more is a typing error

/// A place for ranks, as the user wrote it.
struct Host {
    std::string name;                   // IPv6 literals keep their brackets: "[fe80::1]"
    std::optional<int> slots{};         // unset: as many as the host turns out to have
    std::optional<std::string> user{};  // unset: what ~/.ssh/config says, or our own
    std::optional<int> port{};          // unset: what ~/.ssh/config says, or 22

    friend bool operator==(const Host&, const Host&) = default;
};

/// Ports that may be listened on, both ends counted.
struct PortSpan {
    int first = 0;
    int last = 0;

    friend bool operator==(const PortSpan&, const PortSpan&) = default;
};

/// An address as it was written: a name or a literal without brackets.
struct EndPoint {
    std::string host;
    int port = 0;

    friend bool operator==(const EndPoint&, const EndPoint&) = default;
};

/// A host, and whether it is the machine we run on.
struct PlacedHost {
    Host host;
    bool is_here = false;

    friend bool operator==(const PlacedHost&, const PlacedHost&) = default;
};

}  // namespace hvd::launch
