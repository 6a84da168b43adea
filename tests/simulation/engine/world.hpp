// SPDX-License-Identifier: Apache-2.0
//
// The ranks of one schedule, with the shipped engine on each, and what must hold of them.
#pragma once

#include "collectives/transport/shm/local_group.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "runtime/engine/engine.hpp"
#include "tests/simulation/engine/fabric.hpp"
#include "tests/simulation/engine/plan.hpp"
#include "tests/simulation/engine/scheduler.hpp"
#include "tests/simulation/engine/system.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::sim {

/// How an operation ended on one rank.
enum class Ending { ok, failed };

/// The parts of one rank.
struct Rank {
    std::unique_ptr<rt::TicketTable> tickets;
    std::unique_ptr<coll::LocalGroup> group;
    std::unique_ptr<coll::net::Mesh> mesh;
    std::vector<int> sockets;
    std::unique_ptr<rt::Engine> engine;
    std::map<int, int> set_ids;  // by index in the plan
    std::size_t done_phases = 0;
    std::size_t running_threads = 0;
    std::vector<std::size_t> thread_phase;  // by thread: phases that it has passed
    bool has_given_up = false;              // an operation failed that ends the program
    std::vector<std::vector<std::byte>> buffers;
    rt::Operation* pending_join = nullptr;
};

class World {
public:
    World(std::uint64_t seed, Traits traits, Plan plan);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    /// Runs the schedule. Returns why it failed, or nothing.
    [[nodiscard]] std::string run();

    [[nodiscard]] const Scheduler& scheduler() const noexcept { return scheduler_; }

    // ---- for programs ---------------------------------------------------------------------------

    [[nodiscard]] const Traits& traits() const noexcept { return traits_; }
    [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
    [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
    [[nodiscard]] Rank& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] Fabric& fabric() noexcept { return fabric_; }
    /// Whether operations may fail from now on.
    [[nodiscard]] bool is_disturbed() const noexcept { return is_disturbed_; }
    void disturb() noexcept { is_disturbed_ = true; }
    /// All members must say the same, unless the world is disturbed.
    void note_ending(const Item& item, int rank, Ending ending);

private:
    void connect();
    void start(int rank);
    void run_rank(int rank);
    void end_process(int rank, bool is_death);
    [[nodiscard]] std::unique_ptr<rt::Channel> make_channel(int rank);

    std::uint64_t seed_;
    Traits traits_;
    Plan plan_;
    Scheduler scheduler_;
    Files files_;
    Fabric fabric_;
    std::unique_ptr<coll::SharedHost> host_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::vector<bool> is_alive_;
    bool is_disturbed_ = false;
    std::map<int, std::pair<int, Ending>> endings_;  // by item: of the first rank
};

/// The allocation of an output fails, if the schedule says so.
[[nodiscard]] bool allocation_fails() noexcept;

}  // namespace hvd::sim
