// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/rendezvous/store.hpp"
#include "collectives/rendezvous/tcp/authenticator.hpp"
#include "collectives/rendezvous/tcp/messages.hpp"
#include "collectives/transport/tcp/address.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hvd::coll::store {

/// Where a server may be: the ports of every address are tried in turn.
struct ServerAddress {
    std::vector<net::IpAddress> ips{};
    std::vector<std::uint16_t> ports{};
    std::string name{};  // for messages: "node1"
};

/// The store of a rank that has joined. Thread: one at a time.
class StoreClient : public Store {
public:
    /// Tries until the deadline, since the server may start later. Errors: timed_out (with the last
    /// reason), invalid_argument (refused).
    [[nodiscard]] static Result<std::unique_ptr<StoreClient>> connect(
        const ServerAddress& where,
        const std::string& job,
        const Credentials& credentials,
        const Member& self,
        Deadline deadline);

    /// All ranks, in order, once all have joined. Errors: timed_out (names the missing ranks),
    /// invalid_argument (this rank is refused).
    [[nodiscard]] virtual Result<std::vector<Member>> membership(Deadline deadline) = 0;
};

}  // namespace hvd::coll::store
