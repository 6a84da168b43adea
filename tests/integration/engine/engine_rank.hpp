// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/rendezvous/local_group.hpp"
#include "runtime/engine/engine.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::test {

/// What a test may set about an engine.
struct EngineTraits {
    std::optional<std::size_t> fusion_bytes{};
    std::optional<std::size_t> cache_capacity{};
    std::chrono::microseconds cycle_time{0};
    bool force_hand_over = false;
};

/// One rank with its engine, without environment and C ABI.
struct EngineRank {
    rt::TicketTable tickets;
    std::unique_ptr<coll::LocalGroup> group;  // none in a world of one
    std::unique_ptr<rt::Engine> engine;
    int lost_peer = -1;  // what the engine reported

    [[nodiscard]] int rank() const { return group ? group->rank() : 0; }
    [[nodiscard]] int size() const { return group ? group->size() : 1; }

    /// Submits and waits for all; throws hvd::Exception with the first failure, and when it takes
    /// longer than 20 s. Releases the tickets.
    void run(std::vector<rt::Request> requests);

    /// Waits up to 20 s and releases; throws how it failed.
    void finish(std::span<rt::Operation* const> operations);

    [[nodiscard]] std::vector<rt::Operation*> submit(std::vector<rt::Request> requests);
};

/// An engine for a rank of `group`, which is nullptr in a world of one.
[[nodiscard]] std::unique_ptr<EngineRank> start_engine(std::unique_ptr<coll::LocalGroup> group,
                                                       const EngineTraits& traits = {});

/// Meets the other forked ranks at `socket`. Throws hvd::Exception.
[[nodiscard]] std::unique_ptr<EngineRank> join_world(int rank,
                                                     int size,
                                                     const std::string& socket,
                                                     const EngineTraits& traits = {});

/// Engines of ranks that are threads of this process.
[[nodiscard]] std::vector<std::unique_ptr<EngineRank>> thread_world(
    int size,
    const EngineTraits& traits = {});

/// The sum, or another reduction, in place.
[[nodiscard]] rt::Request allreduce(std::string name,
                                    std::span<float> data,
                                    coll::ReduceOp op = coll::ReduceOp::sum);

/// Throws with `message` unless `condition`: CHECK for forked ranks.
void require(bool condition, const std::string& message);

}  // namespace hvd::test
