// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/world.hpp"

#include "collectives/base/process_ancestry.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/selector/selector.hpp"
#include "runtime/bootstrap/foreign_board.hpp"
#include "runtime/bootstrap/foreign_place.hpp"
#include "runtime/bootstrap/mpi_board.hpp"
#include "runtime/bootstrap/mpi_world.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/control/local_channel.hpp"
#include "runtime/control/shm_channel.hpp"
#include "runtime/control/tcp_channel.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {

namespace {

// The local group's segments.
constexpr std::size_t kControlSegment = 0;
constexpr std::size_t kBackendSegment = 1;

constexpr std::chrono::seconds kReporterLimit{1};  // the world does without it

// Another rank may have heard of the loss, and told us, before the agent's word came to this one.
constexpr std::chrono::milliseconds kLossLimit{200};

using Place = WorldPlace;

/// What decides how the ranks of a world find each other, and what MPI was started for it.
struct Search {
    const World::Options& options;
    const EngineConfig& config;
    int generation = 0;                                    // tells this world from earlier ones
    std::optional<MpiWorld> mpi{};                         // of a communicator of the user's
    std::unique_ptr<coll::mpi::Session> started_for_it{};  // where nothing else would do
};

/// Where the ranks cannot meet because one is gone, the launcher is told that this one only fails
/// for its sake.
Error report_loss(coll::AgentStore& agent, Error error) {
    if (error.code == Errc::unavailable) {
        if (const auto loss = agent.first_failure(Deadline::in(kLossLimit))) {
            (void)agent.report(coll::ReportKind::peer_lost, loss->rank, loss->why);
        }
    }
    return error;
}

/// Under our launcher: the ranks of one host share memory, and local rank 0 leaves the key for it
/// in the agent's store; those of several hosts find each other through the store.
Result<Place> place_by_agent(const Search& search, Deadline deadline) {
    HVD_TRY(const auto contract, coll::decode_launch_contract(search.options.environment));
    Place place;
    place.topology = contract.topology;
    place.host = contract.hostname;
    place.source = describe(coll::Launcher::horovodrun);
    HVD_TRY(place.agent, coll::AgentStore::connect(contract, deadline));
    if (place.topology.size == 1) {
        return place;
    }
    const int world = place.agent->first_world() + search.generation;
    place.home = contract.agent_socket;
    place.prefix = coll::world_prefix(world);
    place.is_connected = place.topology.local_size != place.topology.size ||
                         search.config.cpu_operations == CpuOperations::tcp;
    if (place.is_connected) {
        return place;
    }
    const auto key_name = place.prefix + "local";
    if (place.topology.local_rank == 0) {
        HVD_TRY(const auto key, random_world_key());
        HVD_TRY_STATUS(place.agent->put(key_name, key));
        place.group.key = key;
    } else {
        auto key = place.agent->get(key_name, deadline);
        if (!key) {
            auto missing = coll::missing_rank("local rank 0", std::move(key).error());
            return report_loss(*place.agent, std::move(missing));
        }
        place.group.key = std::move(key).value();
    }
    // The key is what authenticates; the name must only be nobody else's.
    place.group.name = "horovod/" + contract.job_id + "/" + std::to_string(world);
    return place;
}

/// Of the launcher's server, where its variables do not tell. One that cannot be asked is an error:
/// a world of one would be one by each of the ranks.
Result<int> ask_for_size(const Environment& environment, Deadline deadline) {
    const auto board = find_board(environment, 0, deadline);
    const auto size = board ? (*board)->world_size() : std::nullopt;
    if (!size) {
        return Error{Errc::unavailable,
                     "PMIX_RANK=" + find(environment, "PMIX_RANK").value_or("") +
                         " says that a launcher with PMIx has started this process, but not of "
                         "how many ranks: " +
                         (board ? std::string((*board)->name()) + " does not tell it either"
                                : board.error().message) +
                         "; HOROVOD_LAUNCHER names another launcher, or none"};
    }
    return *size;
}

/// Where mpirun starts torchrun, the ranks have the same variables as where torchrun starts mpirun,
/// and would be alone as mpirun sees it.
bool is_torchrun_inside(const Environment& environment, const coll::ExternalLaunch& launch) {
    const bool is_mpi = launch.launcher == coll::Launcher::ompi ||
                        launch.launcher == coll::Launcher::pmix ||
                        launch.launcher == coll::Launcher::pmi;
    const bool is_asked_for =
        find(environment, "HOROVOD_LAUNCHER") || find(environment, "HOROVOD_CONTROLLER");
    return is_mpi && !is_asked_for && find(environment, "TORCHELASTIC_RUN_ID") &&
           is_started_by("TORCHELASTIC_RUN_ID=", launch.mark);
}

/// Whoever started this process, with its rank and size.
Result<coll::ExternalLaunch> find_launch(const Environment& environment, Deadline deadline) {
    HVD_TRY(auto launch, coll::decode_external_launch(environment));
    if (is_torchrun_inside(environment, launch)) {
        auto own = environment;
        own.insert_or_assign("HOROVOD_LAUNCHER", "torchrun");
        HVD_TRY(launch, coll::decode_external_launch(own));
    }
    if (launch.launcher == coll::Launcher::horovodrun) {
        HVD_TRY(const auto contract, coll::decode_launch_contract(environment));
        launch.rank = contract.topology.rank;
        launch.size = contract.topology.size;
    } else if (launch.size == 0) {
        HVD_TRY(launch.size, ask_for_size(environment, deadline));
    }
    return launch;
}

Result<Place> find_place_by_launcher(Search& search, Deadline deadline) {
    const auto& options = search.options;
    const auto& config = search.config;
    HVD_TRY(const auto launch, find_launch(options.environment, deadline));
    if (launch.launcher == coll::Launcher::horovodrun) {
        return place_by_agent(search, deadline);
    }
    LauncherMpi mpi(config, options.environment);
    HVD_TRY(auto place, place_by_foreign(launch,
                                         {.environment = options.environment,
                                          .config = config,
                                          .generation = search.generation,
                                          .mpi = &mpi},
                                         deadline));
    search.started_for_it = mpi.take_session();
    return place;
}

Result<Place> find_place_by_communicator(Search& search, Deadline deadline) {
    const auto& options = search.options;
    const auto& config = search.config;
    HVD_TRY(search.mpi,
            join_communicator(options.mpi_communicator, config, options.environment, deadline));
    HVD_TRY(const bool is_single, is_alone(*search.mpi));
    if (is_single) {
        HVD_TRY(const auto launch, find_launch(options.environment, deadline));
        if (launch.size > 1) {
            return alone_in_mpi(*search.mpi, launch);
        }
    }
    HVD_TRY(const auto generation,
            agree_on_generation(*search.mpi, options.environment, search.generation, deadline));
    if (!generation) {
        return place_by_communicator(*search.mpi, config, options.environment, deadline);
    }
    search.generation = *generation;
    options.generation = *generation + 1;
    return place_by_agent(search, deadline);
}

/// The same where MPI has a word in it: a communicator of the user's, or the wish for its backend.
Result<Place> find_place(Search& search, Deadline deadline) {
    const auto& options = search.options;
    const auto& config = search.config;
    if (options.mpi_communicator != nullptr) {
        return find_place_by_communicator(search, deadline);
    }
    HVD_TRY(auto place, find_place_by_launcher(search, deadline));
    if (config.cpu_operations == CpuOperations::mpi && place.topology.size > 1) {
        HVD_TRY_STATUS(prepare_mpi(place, options.environment));
    }
    return place;
}

/// The agent to whom ranks of another world than horovodrun's still tell why they fail; or nothing.
std::unique_ptr<coll::AgentStore> find_reporter(const Environment& environment) {
    if (!find(environment, coll::kEnvAgentSocket)) {
        return nullptr;
    }
    const auto contract = coll::decode_launch_contract(environment);
    if (!contract) {
        return nullptr;
    }
    auto agent = coll::AgentStore::connect(*contract, Deadline::in(kReporterLimit));
    return agent ? std::move(agent).value() : nullptr;
}

// Ids that are not in use or in quarantine must remain, whatever the user asks for.
constexpr auto kMostCached = ShmChannel::id_count() - 2 * ShmChannel::quarantine();

CacheLimits cache_limits(const EngineConfig& config) {
    return {.capacity = std::min(config.cache_capacity.value_or(kMostCached), kMostCached),
            .ids = ShmChannel::id_count(),
            .quarantine = ShmChannel::quarantine()};
}

}  // namespace

Result<std::unique_ptr<Channel>> World::connect(WorldPlace& place,
                                                const EngineConfig& config,
                                                Deadline deadline) {
    std::unique_ptr<Channel> channel;
    if (place.topology.size == 1) {
        channel = std::make_unique<LocalChannel>();
    } else if (place.is_connected) {
        coll::Store& store = agent_ ? static_cast<coll::Store&>(*agent_) : *place.visit;
        HVD_TRY(mesh_, coll::net::Mesh::meet(store,
                                             {.rank = place.topology.rank,
                                              .size = place.topology.size,
                                              .host = place.host,
                                              .prefix = place.prefix,
                                              .home = place.home,
                                              .interfaces = config.interfaces,
                                              .ports = config.ports,
                                              .link_limit = config.start_timeout},
                                             deadline));
        channel = std::make_unique<TcpChannel>(*mesh_, place.topology.local_size, agent_.get());
    } else {
        place.group.rank = place.topology.local_rank;
        place.group.size = place.topology.local_size;
        place.group.failures = agent_.get();
        place.group.segments = {ShmChannel::segment_bytes(place.topology.local_size),
                                coll::local_segment_bytes(place.topology)};
        HVD_TRY(group_, coll::LocalGroup::form(place.group, deadline));
        channel = std::make_unique<ShmChannel>(*group_, kControlSegment, place.host);
    }
    return channel;
}

Result<std::unique_ptr<World>> World::join(const Options& options, TicketTable& tickets) {
    const int generation = options.generation;
    if (options.mpi_communicator == nullptr) {
        ++options.generation;  // a failed attempt counts too: every rank has made it
    }
    HVD_TRY(auto config, read_config(options.environment));
    const auto deadline = Deadline::in(options.timeout.value_or(config.start_timeout));
    Search search{.options = options, .config = config, .generation = generation};
    HVD_TRY(auto place, find_place(search, deadline));
    std::unique_ptr<World> world(new World);
    world->topology_ = place.topology;
    world->has_dynamic_sets_ = options.has_dynamic_sets || config.has_dynamic_sets;
    world->agent_ = std::move(place.agent);
    if (!world->agent_) {
        world->reporter_ = find_reporter(options.environment);
    }
    world->mpi_ = std::move(search.started_for_it);
    const Logger log("rank " + std::to_string(place.topology.rank), config.log_level,
                     config.log_time);
    if (place.topology.rank == 0) {
        for (const auto& sentence : unknown_variables(options.environment)) {
            log.warn(sentence);
        }
    }

    if (place.topology.rank == 0 && config.stall_shutdown.count() != 0 &&
        !stall_limits(config).shutdown) {
        log.warn("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS has no effect: it must be longer than "
                 "HOROVOD_STALL_CHECK_TIME_SECONDS");
    }

    auto channel = world->connect(place, config, deadline);
    if (!channel) {
        auto error = std::move(channel).error();
        return world->agent_ ? report_loss(*world->agent_, std::move(error)) : error;
    }
    world->topology_.is_homogeneous = !world->mesh_ || world->mesh_->is_homogeneous();
    HVD_TRY(auto communicator,
            world->use_mpi(std::move(search.mpi), place, options.environment, config, deadline));
    auto order = coll::mpi::Order::by_rank;
    if (communicator) {
        HVD_TRY(order, agree_on_order(*communicator, place.topology, config, deadline));
    }
    std::optional<Coordinator> coordinator;
    if (place.topology.rank == 0) {
        if (config.cache_capacity.value_or(0) > kMostCached) {
            log.warn("HOROVOD_CACHE_CAPACITY=" + std::to_string(*config.cache_capacity) +
                     ": the agreement on " + std::to_string(kMostCached) +
                     " tensors is remembered, which is the most");
        }
        coordinator.emplace(place.topology.size, cache_limits(config));
    }
    auto reactor = std::make_unique<coll::Reactor>();
    auto* const bed = reactor.get();
    world->engine_ = std::make_unique<Engine>(
        Engine::Setup{
            .progress =
                {.reactor = std::move(reactor),
                 .channel = std::move(channel).value(),
                 .coordinator = std::move(coordinator),
                 .executor = {.backends = coll::create_backends(
                                  {.topology = place.topology,
                                   .local_group = world->group_.get(),
                                   .local_segment = kBackendSegment,
                                   .mesh = world->mesh_.get(),
                                   .communicator = std::move(communicator),
                                   .order = order,
                                   .reactor = bed}),
                              .select = coll::select},
                 .config = config,
                 .on_stall = [log](const std::string& line) { log.warn(line); },
                 .on_peer_lost =
                     [self = world.get()](int peer, std::string_view why) {
                         // The operations that fail say the same; nothing is left to do about it.
                         (void)self->report(coll::ReportKind::peer_lost, peer, why);
                     }},
            .world = coll::world_of(place.topology)},
        tickets);
    log.info("world of " + std::to_string(place.topology.size) + " on " + place.host +
             ", as the variables of " + std::string(place.source) + " say");
    if (!place.warning.empty() && place.topology.rank == 0) {
        log.warn(place.warning);
    }
    if (world->mesh_) {
        world->use_ways(world->mesh_->host_routes(), place.host, log);
    }
    return world;
}

Result<std::optional<coll::mpi::Communicator>> World::use_mpi(std::optional<MpiWorld> mpi,
                                                              const WorldPlace& place,
                                                              const Environment& environment,
                                                              const EngineConfig& config,
                                                              Deadline deadline) {
    const bool is_wanted = config.cpu_operations == CpuOperations::mpi;
    if (is_wanted && !mpi && place.topology.size > 1) {
        auto joined = join_mpi(place, config, environment, deadline);
        if (!joined) {
            return std::move(joined).error().context("HOROVOD_CPU_OPERATIONS=mpi");
        }
        mpi = std::move(joined).value();
    }
    std::optional<coll::mpi::Communicator> communicator;
    if (mpi) {
        mpi_ = std::move(mpi->session);
    }
    if (mpi && is_wanted) {
        communicator = std::move(mpi->communicator);
        is_by_mpi_ = true;
        if (mesh_) {
            mesh_->stop_accepting();  // it is for control only
        }
    }
    return communicator;
}

World::~World() = default;

void World::close_in_child() const noexcept {
    if (mesh_) {
        mesh_->close_in_child();
    }
}

void World::leave(Deadline deadline) {
    engine_->stop(deadline);
    if (mpi_) {
        mpi_->leave();
    }
    if (agent_) {
        // Tells an ordered end from a process that left early; the launcher does without it, too.
        (void)agent_->report(coll::ReportKind::finished, -1, {});
    }
}

Status World::report(coll::ReportKind kind, int peer, std::string_view text) {
    if (agent_) {
        return agent_->report(kind, peer, text);
    }
    return reporter_ ? reporter_->report(kind, -1, text) : ok();
}

}  // namespace hvd::rt
