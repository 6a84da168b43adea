// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/pmi_server.hpp"

#include "collectives/base/process_ancestry.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unix_socket.hpp"

#include <unistd.h>

namespace hvd::coll {

std::optional<pid_t> find_pmi_server(const Environment& environment) {
    const auto text = find(environment, "PMI_FD");
    const auto socket = text ? parse_number<int>(*text) : std::nullopt;
    if (!socket) {
        return std::nullopt;
    }
    const auto peer = peer_credentials(*socket);
    // Another descriptor may have got the number.
    return peer && is_ancestor(peer->pid, ::getpid()) ? std::optional(peer->pid) : std::nullopt;
}

}  // namespace hvd::coll
