// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/transport/shm/local_group.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/engine/membership.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::test {

/// An engine's settings in a test.
struct EngineTraits {
    std::optional<std::size_t> fusion_bytes{};
    std::optional<std::size_t> cache_capacity{};
    std::chrono::microseconds cycle_time{0};
    bool force_hand_over = false;
    rt::StallLimits stalls{};
    std::optional<int> failing_rank{};  // collectives of 16-bit integers fail there: BrokenBackend
};

/// One rank with its engine, without environment and C ABI.
struct EngineRank {
    rt::TicketTable tickets;
    int its_rank = 0;
    int its_size = 1;
    std::unique_ptr<coll::LocalGroup> group;  // where ranks share memory
    std::unique_ptr<coll::net::Mesh> mesh;    // where they are connected
    std::unique_ptr<rt::Engine> engine;
    std::unique_ptr<rt::Membership> membership;
    int lost_peer = -1;         // what the engine reported
    std::vector<int> blamed{};  // for a stall
    std::mutex mutex;
    std::vector<std::string> stalls;  // guarded by mutex; what the engine told

    [[nodiscard]] int rank() const { return its_rank; }
    [[nodiscard]] int size() const { return its_size; }
    [[nodiscard]] pid_t pid_of(int rank) const {
        return mesh ? mesh->peer(rank).identity.pid : group->pid(rank);
    }

    /// Submits and waits for all; throws hvd::Exception with the first failure, and when it takes
    /// longer than 20 s. Releases the tickets.
    void run(std::vector<rt::Request> requests);

    /// How `run` fails, which it must.
    [[nodiscard]] Error failure_of(std::vector<rt::Request> requests);

    /// Waits up to 20 s and releases; throws how it failed.
    void finish(std::span<rt::Operation* const> operations);

    [[nodiscard]] std::vector<rt::Operation*> submit(std::vector<rt::Request> requests) const;
};

/// Gives the rank, with its group or its mesh, an engine on the channel.
void start_engine(EngineRank& self,
                  std::unique_ptr<rt::Channel> channel,
                  const EngineTraits& traits);

// There are two of each of these, in world_on_memory.cpp and world_over_tcp.cpp; the same tests are
// linked with either.

/// Meets the other forked ranks at `socket`. Throws hvd::Exception.
[[nodiscard]] std::unique_ptr<EngineRank> join_world(int rank,
                                                     int size,
                                                     const std::string& socket,
                                                     const EngineTraits& traits = {});

/// Engines of ranks that are threads of this process.
[[nodiscard]] std::vector<std::unique_ptr<EngineRank>> thread_world(
    int size,
    const EngineTraits& traits = {});

/// Submits operations of which some have names that are new, and returns once the engine has
/// published all of them.
[[nodiscard]] std::vector<rt::Operation*> announce(EngineRank& self,
                                                   std::vector<rt::Request> requests);

/// The sum, or another reduction, in place.
[[nodiscard]] rt::Request allreduce(std::string name,
                                    std::span<float> data,
                                    coll::ReduceOp op = coll::ReduceOp::sum);

/// Of all ranks alike: makes a process set and gives its id, or removes one.
[[nodiscard]] int add_set(EngineRank& self, const std::vector<int>& ranks);
void remove_set(EngineRank& self, int id);

/// Joins, and gives the rank that joined last.
[[nodiscard]] int join(EngineRank& self);

template <class T>
T value_or_throw(Result<T> result) {
    if (!result) {
        throw Exception(result.error());
    }
    return std::move(result).value();
}

/// This process's open descriptors and used pages of memory.
[[nodiscard]] std::size_t open_descriptors();
[[nodiscard]] long pages_in_use();

/// Throws with `message` unless `condition`: CHECK for forked ranks.
void require(bool condition, const std::string& message);

}  // namespace hvd::test
