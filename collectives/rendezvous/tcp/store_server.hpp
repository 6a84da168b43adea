// SPDX-License-Identifier: Apache-2.0
//
// A store that one rank serves while a world starts, and that all ranks, that one too, use as store
// clients: for worlds over hosts that an external launcher has started.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/rendezvous/tcp/authenticator.hpp"
#include "collectives/transport/tcp/address.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace hvd::coll::store {

/// A socket that listens at one address, or at all addresses where there is none, on the first free
/// one of the ports (0: any). Errors: unavailable.
struct ServerSocket {
    UniqueFd socket{};
    std::uint16_t port = 0;
};
[[nodiscard]] Result<ServerSocket> open_server_socket(const std::optional<net::IpAddress>& address,
                                                      std::span<const std::uint16_t> ports);

/// Thread: any; its own thread serves.
class StoreServer {
public:
    /// Errors: unavailable.
    [[nodiscard]] static Result<std::unique_ptr<StoreServer>> open(ServerSocket socket,
                                                                   int size,
                                                                   std::string job,
                                                                   const Credentials& credentials);

    /// Once all ranks have joined, waits a few seconds until they have left.
    ~StoreServer();
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;

private:
    StoreServer(std::unique_ptr<Authenticator> authenticator, UniqueFd wakeup);

    std::unique_ptr<Authenticator> authenticator_;  // of the thread
    UniqueFd wakeup_;                               // readable when the thread is to end
    std::jthread thread_;
};

}  // namespace hvd::coll::store
