// SPDX-License-Identifier: Apache-2.0
//
// A meeting point: one rank keeps it while the world comes together, and all ranks, that one too,
// come to it and use it as their Store. For worlds over hosts that no launcher of ours has started.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/rendezvous/store.hpp"
#include "collectives/rendezvous/tcp/authenticator.hpp"
#include "collectives/rendezvous/tcp/messages.hpp"
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

/// How ends prove who they are; the same on all ranks.
struct Credentials {
    Authentication kind = Authentication::none;
    std::vector<std::byte> secret{};  // of `key`
    std::string munge_socket{};       // of `munge`; empty: the usual one
};
[[nodiscard]] Result<std::unique_ptr<Authenticator>> create_authenticator(
    const Credentials& credentials);

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

    /// When all ranks have come, waits a few seconds until they have left.
    ~StoreServer();
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;

private:
    StoreServer(std::unique_ptr<Authenticator> authenticator, UniqueFd bell);

    std::unique_ptr<Authenticator> authenticator_;  // of the thread
    UniqueFd bell_;                                 // rings when the thread is to end
    std::jthread thread_;
};

/// Where a point may be: the ports of every address are tried in turn.
struct ServerAddress {
    std::vector<net::IpAddress> ips{};
    std::vector<std::uint16_t> ports{};
    std::string name{};  // for people: "node1"
};

/// The store of a rank that has come. Thread: one at a time.
class StoreClient : public Store {
public:
    /// Tries until the deadline, since the point may open later. Errors: timed_out (with the last
    /// reason), invalid_argument (turned away).
    [[nodiscard]] static Result<std::unique_ptr<StoreClient>> begin(const ServerAddress& where,
                                                                    const std::string& job,
                                                                    const Credentials& credentials,
                                                                    const Member& self,
                                                                    Deadline deadline);

    /// All ranks, in order, once all have come. Errors: timed_out (who has not), invalid_argument
    /// (this rank is not wanted).
    [[nodiscard]] virtual Result<std::vector<Member>> membership(Deadline deadline) = 0;
};

}  // namespace hvd::coll::store
