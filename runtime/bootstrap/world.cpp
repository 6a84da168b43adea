// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/world.hpp"

#include "collectives/rendezvous/launch_env.hpp"
#include "collectives/selector/selector.hpp"
#include "runtime/bootstrap/foreign_launch.hpp"
#include "runtime/control/local_channel.hpp"
#include "runtime/control/shm_channel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <sys/random.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

// The local group's segments.
constexpr std::size_t kControlSegment = 0;
constexpr std::size_t kBackendSegment = 1;

constexpr std::size_t kKeyBytes = 32;

/// Where this rank stands and how it meets the others: what the environment says.
struct Place {
    coll::Topology topology;
    std::string host;
    coll::LocalMeeting meeting;
    std::unique_ptr<coll::AgentStore> agent;
};

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

Status check_one_host(const coll::Topology& topology) {
    if (topology.local_size != topology.size) {
        return Error{Errc::unsupported, "a world of " + std::to_string(topology.size) +
                                            " ranks with " + std::to_string(topology.local_size) +
                                            " on this host: this version runs on one host only"};
    }
    return ok();
}

Result<std::vector<std::byte>> random_key() {
    std::vector<std::byte> key(kKeyBytes);
    if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
        return system_error("getrandom", errno);
    }
    return key;
}

/// Under our launcher: local rank 0 leaves the key and the socket's name in the agent's store.
Result<Place> place_by_agent(const World::Options& options, Deadline deadline) {
    HVD_TRY(const auto contract, coll::decode_launch_contract(options.environment));
    HVD_TRY_STATUS(check_one_host(contract.topology));
    Place place{
        .topology = contract.topology, .host = contract.hostname, .meeting = {}, .agent = {}};
    HVD_TRY(place.agent, coll::AgentStore::connect(contract, deadline));
    if (place.topology.size == 1) {
        return place;
    }
    const auto key_name = "world/" + std::to_string(options.generation) + "/local";
    if (place.topology.local_rank == 0) {
        HVD_TRY(const auto key, random_key());
        HVD_TRY_STATUS(place.agent->put(key_name, key));
        place.meeting.key = key;
    } else {
        HVD_TRY(place.meeting.key, place.agent->get(key_name, deadline));
    }
    // The key is what authenticates; the name must only be nobody else's.
    place.meeting.socket = "horovod/" + contract.job_id + "/" + std::to_string(options.generation);
    return place;
}

/// Under another launcher: the launcher's process tells the jobs apart.
Result<Place> place_by_foreign(const ForeignLaunch& launch, int generation) {
    HVD_TRY_STATUS(check_one_host(launch.topology));
    Place place{.topology = launch.topology, .host = host_name(), .meeting = {}, .agent = {}};
    if (launch.topology.size == 1) {
        return place;
    }
    HVD_TRY(const auto launcher, find_launcher(launch.mark));
    place.meeting.launcher = launcher.pid;
    place.meeting.socket = "horovod/" + std::to_string(getuid()) + "/" +
                           std::to_string(launcher.pid) + "." + launcher.start_time + "/" +
                           std::to_string(generation);
    return place;
}

Result<Place> find_place(const World::Options& options, Deadline deadline) {
    if (coll::has_launch_contract(options.environment)) {
        return place_by_agent(options, deadline);
    }
    HVD_TRY(const auto foreign, decode_foreign_launch(options.environment));
    if (foreign) {
        return place_by_foreign(*foreign, options.generation);
    }
    return Place{.topology = {}, .host = host_name(), .meeting = {}, .agent = {}};
}

CacheLimits cache_limits(const EngineConfig& config) {
    // Ids that are not in use or in quarantine must remain, whatever the user asks for.
    constexpr auto kMost = ShmChannel::id_count() - 2 * ShmChannel::quarantine();
    return {.capacity = std::min(config.cache_capacity.value_or(kMost), kMost),
            .ids = ShmChannel::id_count(),
            .quarantine = ShmChannel::quarantine()};
}

}  // namespace

Result<std::unique_ptr<World>> World::join(const Options& options, TicketTable& tickets) {
    HVD_TRY(auto config, read_config(options.environment));
    const auto deadline = Deadline::in(options.timeout.value_or(config.start_timeout));
    HVD_TRY(auto place, find_place(options, deadline));
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

    std::unique_ptr<Channel> channel;
    if (place.topology.size == 1) {
        channel = std::make_unique<LocalChannel>();
    } else {
        place.meeting.local_rank = place.topology.local_rank;
        place.meeting.local_size = place.topology.local_size;
        place.meeting.segments = {ShmChannel::segment_bytes(place.topology.local_size),
                                  coll::local_segment_bytes(place.topology)};
        HVD_TRY(world->group_, coll::LocalGroup::meet(place.meeting, deadline));
        channel = std::make_unique<ShmChannel>(*world->group_, kControlSegment, place.host);
    }
    std::optional<Coordinator> coordinator;
    if (place.topology.rank == 0) {
        coordinator.emplace(place.topology.size, cache_limits(config));
    }
    world->engine_ = std::make_unique<Engine>(
        Engine::Setup{
            .reactor = std::make_unique<coll::Reactor>(),
            .channel = std::move(channel),
            .coordinator = std::move(coordinator),
            .executor = {.backends = coll::create_backends({.topology = place.topology,
                                                            .local_group = world->group_.get(),
                                                            .local_segment = kBackendSegment}),
                         .select = coll::select,
                         .fusion_bytes = config.fusion_bytes,
                         .rank = place.topology.rank},
            .config = config,
            .on_peer_lost =
                [agent = world->agent_.get()](int peer, std::string_view why) {
                    if (agent != nullptr) {
                        // The operations that fail say the same; nothing is left to do about it.
                        (void)agent->report(coll::ReportKind::peer_lost, peer, why);
                    }
                }},
        tickets);
    log.info("world of " + std::to_string(place.topology.size) + " on " + place.host);
    return world;
}

World::~World() = default;

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
