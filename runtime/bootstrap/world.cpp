// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/world.hpp"

#include "collectives/selector/selector.hpp"
#include "runtime/control/local_channel.hpp"

#include <utility>

namespace hvd::rt {
namespace {

constexpr CacheLimits kLocalCache{.capacity = 4096, .ids = 8192, .quarantine = 1};

}  // namespace

Result<std::unique_ptr<World>> World::join(const Options& options, TicketTable& tickets) {
    HVD_TRY(auto config, read_config(options.environment));
    if (options.timeout) {
        config.start_timeout = *options.timeout;
    }
    std::unique_ptr<World> world(new World);
    auto limits = kLocalCache;
    limits.capacity = config.cache_capacity.value_or(limits.capacity);
    world->engine_ = std::make_unique<Engine>(
        Engine::Setup{
            .reactor = std::make_unique<coll::Reactor>(),
            .channel = std::make_unique<LocalChannel>(),
            .coordinator = Coordinator(1, limits),
            .executor = {.backends = coll::create_backends({.topology = world->topology_}),
                         .select = coll::select,
                         .fusion_bytes = config.fusion_bytes,
                         .rank = world->topology_.rank},
            .config = config,
            .on_peer_lost = nullptr},
        tickets);
    return world;
}

World::~World() = default;

void World::leave(Deadline deadline) {
    engine_->stop(deadline);
}

Status World::report(coll::ReportKind kind, int peer, std::string_view text) {
    return agent_ ? agent_->report(kind, peer, text) : ok();
}

}  // namespace hvd::rt
