// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The names and addresses under which this machine may be written.
struct ThisMachine {
    std::string hostname;                // as the kernel has it, short or full
    std::vector<std::string> aliases;    // of /etc/hosts, on lines with a local address
    std::vector<std::string> addresses;  // of the interfaces, as inet_ntop writes them
};

/// Asks the kernel and /etc/hosts; never a name server.
[[nodiscard]] ThisMachine this_machine();

/// The names on lines of a hosts(5) text whose address is a loopback address or one of
/// `addresses`.
[[nodiscard]] std::vector<std::string> aliases_in(std::string_view hosts_text,
                                                  const std::vector<std::string>& addresses);

/// Whether a name, an IPv4 address or an IPv6 address in brackets means `machine`.
[[nodiscard]] bool is_this_machine(std::string_view name, const ThisMachine& machine);

/// Tells which hosts are this machine; those are one, under the name that was written first, with
/// their slots summed. A host written with a user or a port is reached as such, even here. An empty
/// list gives "localhost". Errors: as of add_slots.
[[nodiscard]] Result<std::vector<PlacedHost>> place_hosts(const std::vector<Host>& hosts,
                                                          const ThisMachine& machine);

}  // namespace hvd::launch
