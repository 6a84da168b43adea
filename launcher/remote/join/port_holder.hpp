// SPDX-License-Identifier: Apache-2.0
//
// Who has a port that we wanted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hvd::launch {

/// A listening socket, as /proc/net/tcp has it.
struct Listener {
    std::string user;  // its number
    std::string inode;
};

/// The first that listens on the port, in the text of /proc/net/tcp or tcp6.
[[nodiscard]] std::optional<Listener> find_listener(std::string_view table, int port);

/// "pid 4711 of user anna (python3 serve.py)"; without its pid where its processes are not ours to
/// look at. Empty where nobody listens there.
[[nodiscard]] std::string tell_port_holder(int port);

}  // namespace hvd::launch
