// SPDX-License-Identifier: Apache-2.0
//
// The composition root of the runtime: environment → place → transports → backends → engine.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/log.hpp"
#include "collectives/base/result.hpp"
#include "collectives/device_tensors.hpp"
#include "collectives/mpi/communicator.hpp"
#include "collectives/mpi/session.hpp"
#include "collectives/rendezvous/agent_store.hpp"
#include "collectives/staging.hpp"
#include "collectives/sum_order.hpp"
#include "collectives/topology.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/engine/membership.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::rt {

struct MpiWorld;
struct WorldPlace;

/// One membership of this process in a world, from hvd_init to hvd_shutdown.
///
/// Thread: created and ended by one thread, used by any.
class World {
public:
    struct Options {
        Environment environment;
        std::optional<std::chrono::milliseconds> timeout;  // else HOROVOD_START_TIMEOUT
        /// How many worlds of the launcher's ranks this process has tried, which this may count up;
        /// the same on all ranks, where no communicator tells it to them.
        int& generation;
        const void* mpi_communicator = nullptr;  // address of an MPI_Comm: of its ranks
        bool has_dynamic_sets = false;           // else HOROVOD_DYNAMIC_PROCESS_SETS decides
        coll::Staging* staging = nullptr;        // for tensors of devices; outlives the world
        coll::DeviceTensors* devices = nullptr;  // for those that stay there; outlives it too
    };

    /// Finds the other ranks. Errors: invalid_argument (an impossible environment), timed_out
    /// (names what is missing), unsupported, unavailable.
    [[nodiscard]] static Result<std::unique_ptr<World>> join(const Options& options,
                                                             TicketTable& tickets);

    World(const World&) = delete;
    World& operator=(const World&) = delete;
    ~World();

    [[nodiscard]] const coll::Topology& topology() const noexcept { return topology_; }
    [[nodiscard]] Engine& engine() noexcept { return *engine_; }
    [[nodiscard]] Membership& membership() noexcept { return *membership_; }
    /// Whether process sets may change after the start.
    [[nodiscard]] bool has_dynamic_sets() const noexcept { return has_dynamic_sets_; }

    /// By rank: equal numbers share memory.
    [[nodiscard]] const std::vector<int>& hosts() const noexcept { return hosts_; }

    /// Whether tensors travel by MPI, and whether any thread may call MPI meanwhile.
    [[nodiscard]] bool is_by_mpi() const noexcept { return is_by_mpi_; }
    [[nodiscard]] bool has_mpi_threads() const noexcept { return mpi_ && mpi_->has_full_threads(); }

    /// Leaves in order: see Engine::stop.
    void leave(Deadline deadline);

    /// In a forked child: keeps no connection of the parent open. Async-signal-safe; nothing else
    /// of the world is of use there.
    void close_in_child() const noexcept;

    /// Writes a timeline on rank 0; does nothing on others. Errors: as Engine::start_timeline.
    [[nodiscard]] Status start_timeline(const std::string& path, bool mark_cycles);
    [[nodiscard]] Status stop_timeline();

    /// Reports to the launcher's agent, where there is one; without a peer where the ranks of the
    /// world are not the launcher's. Thread: any.
    [[nodiscard]] Status report(coll::ReportKind kind, int peer, std::string_view text);

private:
    World() = default;

    /// The parts of the MPI backend.
    struct MpiParts {
        std::optional<coll::mpi::Communicator> communicator{};
        coll::SumOrder order = coll::SumOrder::by_rank;
    };

    [[nodiscard]] std::unique_ptr<Channel> make_channel(const std::string& host);
    void start_engine(MpiParts mpi,
                      const std::string& host,
                      const EngineConfig& config,
                      const Logger& log,
                      TicketTable& tickets);

    /// The communicator for the backend, where MPI was asked for.
    [[nodiscard]] Result<std::optional<coll::mpi::Communicator>> use_mpi(
        std::optional<MpiWorld> mpi,
        const WorldPlace& place,
        const Environment& environment,
        const EngineConfig& config,
        Deadline deadline);

    void start_configured_timelines(const EngineConfig& config, int generation, const Logger& log);
    [[nodiscard]] Status write_timeline(const std::string& path, bool mark_cycles);

    coll::Topology topology_;
    std::vector<int> hosts_;
    std::string host_;
    std::string job_;  // as its launcher names it
    std::unique_ptr<coll::mpi::Session> mpi_;
    bool is_by_mpi_ = false;
    bool has_dynamic_sets_ = false;
    coll::Staging* staging_ = nullptr;
    coll::DeviceTensors* devices_ = nullptr;  // nullptr where none stay there
    std::unique_ptr<coll::AgentStore> agent_;
    std::unique_ptr<coll::AgentStore> reporter_;  // where the agent has no part in this world
    std::unique_ptr<coll::LocalGroup> group_;     // of the ranks of this host
    std::unique_ptr<coll::net::Mesh> mesh_;       // of all ranks, over several hosts
    std::unique_ptr<Engine> engine_;              // uses all of the above
    std::unique_ptr<Membership> membership_;
};

}  // namespace hvd::rt
