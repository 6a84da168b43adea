// SPDX-License-Identifier: Apache-2.0
//
// The programs of all ranks: drawn from the seed, and such that correct programs end.
#pragma once

#include "collectives/types.hpp"
#include "tests/simulation/engine/fabric.hpp"
#include "tests/simulation/engine/random.hpp"
#include "tests/simulation/engine/scheduler.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::sim {

/// One operation: a collective of one tensor, or of a group.
struct Item {
    int id = 0;   // in the order of the plan
    int set = 0;  // index in Plan::sets
    std::vector<std::string> names;
    int version = 0;  // of the shapes of these names
    coll::Op op = coll::Op::allreduce;
    coll::ReduceOp reduce = coll::ReduceOp::sum;
    coll::DataType type = coll::DataType::i64;
    coll::Wire wire = coll::Wire::own;
    bool over_contributing = false;
    int root = 0;             // a rank of the world
    bool is_awaited = false;  // else submitted, and waited for at the end of the phase
    int culprit = -1;         // rank whose shape differs
};

/// Ranks pass its phases one after the other, each at its own time. Within one, each of a rank's
/// threads runs its awaited items in the order of their ids and the others anywhere between, which
/// cannot end in a deadlock: of the items that have not ended, the first is not waiting for
/// another.
struct Phase {
    enum class Kind { work, burst, outside, add, remove, join };
    /// burst: many awaited operations of one set, by each rank's first thread.
    /// outside: a rank waits, without the engine, until another one is as far.
    Kind kind = Kind::work;
    int set = -1;             // add, remove; for `work` a set that is removed meanwhile
    std::vector<Item> items;  // work, burst
};

struct Plan {
    std::vector<std::vector<int>> sets;  // members, by index; the world first
    std::vector<Phase> phases;
    std::vector<std::vector<bool>> skips;  // by phase and rank: the rank has joined before

    [[nodiscard]] bool is_member(int set, int rank) const;
    /// Members that do not contribute, since they have joined.
    [[nodiscard]] std::vector<int> joined(const Item& item, std::size_t phase) const;
};

/// Everything about a schedule but its plan.
struct Traits {
    int ranks = 2;
    bool is_tcp = false;
    Habits habits;
    Delays delays;
    FabricTraits fabric;
    std::size_t cache_capacity = 64;
    std::optional<std::size_t> fusion_bytes;
    unsigned cycle_us = 0;
    unsigned pause_one_in = 4;  // actions before which a program sleeps
    int doomed = -1;            // the rank that dies
    unsigned dies_after_us = 0;
    int leaver = -1;                // the rank that stops early
    std::size_t leaves_before = 0;  // the phase
    unsigned allocation_fails_one_in = 0;

    /// Whether operations may fail that ought not to otherwise.
    [[nodiscard]] bool is_disturbed() const noexcept { return doomed >= 0 || leaver >= 0; }
};

[[nodiscard]] Traits draw_traits(std::uint64_t seed);
[[nodiscard]] Plan draw_plan(std::uint64_t seed, const Traits& traits);
[[nodiscard]] std::string describe(const Traits& traits);
[[nodiscard]] std::string describe(const Plan& plan);

/// A number that depends on its arguments alone.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0);

}  // namespace hvd::sim
