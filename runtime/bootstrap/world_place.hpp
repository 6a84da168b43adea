// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/rendezvous/agent_store.hpp"
#include "collectives/rendezvous/tcp/store_server.hpp"
#include "collectives/rendezvous/world_key.hpp"
#include "collectives/topology.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::rt {

/// Where this rank stands and how it finds the others: what the launcher tells.
struct WorldPlace {
    coll::Topology topology{};
    std::string host{};      // its name, for messages
    std::string host_id{};   // equal on the ranks of one host, another elsewhere
    std::string job{};       // as the launcher names it; empty: it has no name
    bool needs_tcp = false;  // the ranks are on several hosts, or the user wants connections

    // Where the ranks leave each other values: one of the two, or neither where the kernel of the
    // one host suffices.
    std::unique_ptr<coll::AgentStore> agent{};
    std::unique_ptr<coll::store::StoreServer> server{};  // on the rank that serves
    std::unique_ptr<coll::Store> client{};               // its; ends before it, which waits for all
    std::string prefix{};                                // of this world's keys in the store
    std::optional<int> reduced_world{};   // its number, where ranks that have ended are left out
    std::optional<coll::WorldKey> key{};  // where something else carried it

    // Without a store and a key: what the ranks of this launcher and generation have in common.
    std::string group_name{};
    pid_t launcher = 0;

    std::string_view source{};  // which launcher told all this
    std::string warning{};      // empty: none

    [[nodiscard]] coll::Store* store() const noexcept {
        return agent ? static_cast<coll::Store*>(agent.get()) : client.get();
    }
};

}  // namespace hvd::rt
