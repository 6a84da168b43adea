// SPDX-License-Identifier: Apache-2.0
//
// Who has a port that we wanted.
#pragma once

#include "collectives/net/address.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::coll::net {

/// A socket, as /proc/net/tcp has it.
struct PortHolder {
    std::string user;  // its number
    std::string inode;
};

/// Who keeps others from listening at the address, in the text of /proc/net/tcp, tcp6 or both: who
/// is at this very address or at all addresses; at any, where `at` stands for all. The nearest of
/// several; who has a connection from there only where nobody listens.
[[nodiscard]] std::optional<PortHolder> find_port_holder(std::string_view table,
                                                         const IpAddress& at,
                                                         std::uint16_t port);

/// "pid 4711 of user anna (python3 serve.py)"; without its pid where its processes are not ours to
/// look at. Empty where nobody is found.
[[nodiscard]] std::string tell_port_holder(const IpAddress& at, std::uint16_t port);

}  // namespace hvd::coll::net
