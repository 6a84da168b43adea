// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/launch_contract/agent_protocol.hpp"
#include "runtime/bootstrap/world.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::rt {

/// The state of this process that outlives a world: its tickets and plans, and how to start the
/// next world. There is one, made at first use and never destroyed, so that nothing of it runs at
/// exit.
///
/// A forked child has the topology and nothing else.
/// Thread: any.
class Context {
public:
    [[nodiscard]] static Context& process();

    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    struct InitOptions {
        std::optional<std::chrono::milliseconds> timeout{};
        const void* mpi_communicator = nullptr;  // address of an MPI_Comm: the world is its ranks'
        std::vector<std::vector<int>> process_sets{};  // made before `init` returns: 1, 2, ...
        bool has_dynamic_sets = false;                 // process sets may change later
    };

    /// Joins the world of the environment; does nothing in a world already. One caller at a time
    /// does it, the others wait for the outcome.
    [[nodiscard]] Status init(const InitOptions& options);

    /// Leaves the world; does nothing outside of one.
    [[nodiscard]] Status shutdown();

    [[nodiscard]] bool in_world() const noexcept {
        return world_.load(std::memory_order_relaxed) != nullptr;
    }

    /// Errors: unavailable before init and after shutdown.
    [[nodiscard]] Result<coll::Topology> topology() const;

    /// Works outside of a world too.
    [[nodiscard]] Status report(coll::ReportKind kind, int peer, std::string_view text);

    /// A world that stays while it is used.
    class Use {
    public:
        Use(Use&& other) noexcept
            : context_(std::exchange(other.context_, nullptr)), world_(other.world_) {}
        Use& operator=(Use&&) = delete;
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use();

        World* operator->() const noexcept { return world_; }

    private:
        friend class Context;
        Use(Context* context, World* world) noexcept : context_(context), world_(world) {}

        Context* context_;
        World* world_;
    };

    /// Errors: unavailable outside of a world and in a forked child.
    [[nodiscard]] Result<Use> use();

    /// Errors: unavailable in a forked child.
    [[nodiscard]] Result<TicketTable*> tickets();

    /// Whether this build takes tensors of GPUs.
    [[nodiscard]] bool takes_gpu_tensors() const noexcept { return staging_ != nullptr; }

private:
    Context();
    ~Context() = default;

    [[nodiscard]] static Status add_sets(World& world, const InitOptions& options);

    std::unique_ptr<coll::DeviceTensors> devices_;  // tickets that are kept have memory of it
    std::unique_ptr<coll::Staging> staging_;        // and of it
    TicketTable tickets_;
    std::mutex mutex_;              // one init or shutdown at a time
    std::unique_ptr<World> owned_;  // guarded by mutex_
    int generation_ = 0;            // guarded by mutex_
    std::atomic<World*> world_{nullptr};
    std::atomic<int> users_{0};  // calls that are inside the world
    coll::Topology topology_;    // written before has_topology_
    std::atomic<bool> has_topology_{false};
    std::atomic<bool> engaged_{false};          // from the start of init to the end of shutdown
    std::atomic<bool> is_forked_child_{false};  // of a rank
};

}  // namespace hvd::rt
