// SPDX-License-Identifier: Apache-2.0
//
// The process that holds a port.
#pragma once

#include "collectives/transport/tcp/address.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hvd::coll::net {

/// A socket, as /proc/net/tcp has it.
struct PortHolder {
    std::string user;  // its number
    std::string inode;
};

/// By port: the socket that keeps others from listening at the address, in the text of
/// /proc/net/tcp, tcp6 or both: one at this very address or at all addresses; at any, where `at`
/// stands for all. The nearest of several; one with a connection from there only where nobody
/// listens.
[[nodiscard]] std::map<std::uint16_t, PortHolder> find_port_holders(std::string_view table,
                                                                    const IpAddress& at,
                                                                    const PortRange& ports);

/// "pid 4711 of user anna (python3 serve.py)"; without its pid where its processes belong to
/// another user. Empty where nobody is found.
[[nodiscard]] std::string tell_port_holder(const IpAddress& at, std::uint16_t port);

/// For the end of a sentence about a range without a free port, the first few: "; taken: 21018 by
/// pid 4711 of user anna (python3 serve.py), 21019 by a process of user 1002 and 6 more".
/// Empty where nobody is found.
[[nodiscard]] std::string tell_port_holders(const IpAddress& at, const PortRange& ports);

}  // namespace hvd::coll::net
