// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/rendezvous/agent_store.hpp"
#include "collectives/rendezvous/tcp/store_server.hpp"
#include "collectives/topology.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace hvd::rt {

/// Where this rank stands and how it meets the others: what the environment says.
struct WorldPlace {
    coll::Topology topology{};
    std::string host{};
    coll::LocalGroupOptions group{};  // of ranks that share memory
    bool is_connected = false;        // the ranks meet over the network instead
    std::string prefix{};             // of this world's keys in the store
    std::string home{};               // another one on every host
    std::unique_ptr<coll::AgentStore> agent{};
    std::unique_ptr<coll::store::StoreServer> point{};  // of the rank that keeps it
    std::unique_ptr<coll::Store> visit{};               // where there is no agent
    std::string_view source{};                          // who said all this
    std::string warning{};                              // empty: none
};

}  // namespace hvd::rt
