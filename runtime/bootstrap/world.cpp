// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/world.hpp"

#include "collectives/base/text.hpp"
#include "collectives/rendezvous/launch_env.hpp"
#include "collectives/selector/selector.hpp"
#include "runtime/bootstrap/foreign_launch.hpp"
#include "runtime/bootstrap/foreign_place.hpp"
#include "runtime/bootstrap/world_place.hpp"
#include "runtime/control/local_channel.hpp"
#include "runtime/control/shm_channel.hpp"
#include "runtime/control/tcp_channel.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {

namespace {

// The local group's segments.
constexpr std::size_t kControlSegment = 0;
constexpr std::size_t kBackendSegment = 1;

using Place = WorldPlace;

/// Under our launcher: the ranks of one host share memory, and local rank 0 leaves the key for it
/// in the agent's store; those of several hosts find each other through the store.
Result<Place> place_by_agent(const World::Options& options,
                             CpuOperations operations,
                             Deadline deadline) {
    HVD_TRY(const auto contract, coll::decode_launch_contract(options.environment));
    Place place;
    place.topology = contract.topology;
    place.host = contract.hostname;
    place.source = describe(Launcher::horovodrun);
    HVD_TRY(place.agent, coll::AgentStore::connect(contract, deadline));
    if (place.topology.size == 1) {
        return place;
    }
    place.prefix = "world/" + std::to_string(options.generation) + "/";
    place.is_connected =
        place.topology.local_size != place.topology.size || operations == CpuOperations::tcp;
    if (place.is_connected) {
        return place;
    }
    const auto key_name = place.prefix + "local";
    if (place.topology.local_rank == 0) {
        HVD_TRY(const auto key, random_world_key());
        HVD_TRY_STATUS(place.agent->put(key_name, key));
        place.meeting.key = key;
    } else {
        HVD_TRY(place.meeting.key, place.agent->get(key_name, deadline));
    }
    // The key is what authenticates; the name must only be nobody else's.
    place.meeting.socket = "horovod/" + contract.job_id + "/" + std::to_string(options.generation);
    return place;
}

Result<Place> find_place(const World::Options& options,
                         const EngineConfig& config,
                         Deadline deadline) {
    HVD_TRY(const auto launch, decode_foreign_launch(options.environment));
    if (launch.launcher == Launcher::horovodrun) {
        return place_by_agent(options, config.cpu_operations, deadline);
    }
    return place_by_foreign(
        launch,
        {.environment = options.environment, .config = config, .generation = options.generation},
        deadline);
}

CacheLimits cache_limits(const EngineConfig& config) {
    // Ids that are not in use or in quarantine must remain, whatever the user asks for.
    constexpr auto kMost = ShmChannel::id_count() - 2 * ShmChannel::quarantine();
    return {.capacity = std::min(config.cache_capacity.value_or(kMost), kMost),
            .ids = ShmChannel::id_count(),
            .quarantine = ShmChannel::quarantine()};
}

/// Which way the connections with each other host go, as far as this rank made them.
std::string describe_connections(const coll::net::Mesh& mesh) {
    std::map<std::string, std::string> by_host;
    for (int rank = 0; rank < mesh.size(); ++rank) {
        const auto& peer = mesh.peer(rank);
        if (!peer.address.empty()) {
            by_host.emplace(peer.identity.host, peer.address);
        }
    }
    std::vector<std::string> parts;
    parts.reserve(by_host.size());
    for (const auto& [host, address] : by_host) {
        parts.push_back(std::string(host).append(" by ").append(address));
    }
    return join(parts, ", ");
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
                                              .interfaces = config.interfaces,
                                              .ports = config.ports},
                                             deadline));
        channel = std::make_unique<TcpChannel>(*mesh_, place.topology.local_size);
    } else {
        place.meeting.local_rank = place.topology.local_rank;
        place.meeting.local_size = place.topology.local_size;
        place.meeting.segments = {ShmChannel::segment_bytes(place.topology.local_size),
                                  coll::local_segment_bytes(place.topology)};
        HVD_TRY(group_, coll::LocalGroup::meet(place.meeting, deadline));
        channel = std::make_unique<ShmChannel>(*group_, kControlSegment, place.host);
    }
    return channel;
}

Result<std::unique_ptr<World>> World::join(const Options& options, TicketTable& tickets) {
    HVD_TRY(auto config, read_config(options.environment));
    const auto deadline = Deadline::in(options.timeout.value_or(config.start_timeout));
    HVD_TRY(auto place, find_place(options, config, deadline));
    std::unique_ptr<World> world(new World);
    world->topology_ = place.topology;
    world->agent_ = std::move(place.agent);
    const Logger log("rank " + std::to_string(place.topology.rank), config.log_level,
                     config.log_time);
    if (place.topology.rank == 0) {
        for (const auto& sentence : unknown_variables(options.environment)) {
            log.warn(sentence);
        }
    }

    HVD_TRY(auto channel, world->connect(place, config, deadline));
    std::optional<Coordinator> coordinator;
    if (place.topology.rank == 0) {
        coordinator.emplace(place.topology.size, cache_limits(config));
    }
    auto reactor = std::make_unique<coll::Reactor>();
    world->engine_ = std::make_unique<Engine>(
        Engine::Setup{.reactor = std::move(reactor),
                      .channel = std::move(channel),
                      .coordinator = std::move(coordinator),
                      .executor = {.backends =
                                       coll::create_backends({.topology = place.topology,
                                                              .local_group = world->group_.get(),
                                                              .local_segment = kBackendSegment,
                                                              .mesh = world->mesh_.get()}),
                                   .select = coll::select,
                                   .fusion_bytes = config.fusion_bytes,
                                   .rank = place.topology.rank},
                      .config = config,
                      .on_peer_lost =
                          [agent = world->agent_.get()](int peer, std::string_view why) {
                              if (agent != nullptr) {
                                  // The operations that fail say the same; nothing is left to do
                                  // about it.
                                  (void)agent->report(coll::ReportKind::peer_lost, peer, why);
                              }
                          }},
        tickets);
    log.info("world of " + std::to_string(place.topology.size) + " on " + place.host +
             ", as the variables of " + std::string(place.source) + " say");
    if (!place.warning.empty() && place.topology.rank == 0) {
        log.warn(place.warning);
    }
    // Once for each host, by the rank that has connected to all others of it and of those before.
    if (world->mesh_ && place.topology.local_rank == place.topology.local_size - 1 &&
        place.topology.rank != 0) {
        log.info("connected over tcp with " + describe_connections(*world->mesh_));
    }
    return world;
}

World::~World() = default;

void World::close_in_child() const noexcept {
    if (mesh_) {
        mesh_->close_in_child();
    }
}

void World::leave(Deadline deadline) {
    engine_->stop(deadline);
    if (agent_) {
        // Tells an ordered end from a process that left early; the launcher does without it, too.
        (void)agent_->report(coll::ReportKind::finished, -1, {});
    }
}

Status World::report(coll::ReportKind kind, int peer, std::string_view text) {
    return agent_ ? agent_->report(kind, peer, text) : ok();
}

}  // namespace hvd::rt
