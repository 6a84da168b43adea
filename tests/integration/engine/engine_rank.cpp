// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/engine/engine_rank.hpp"

#include "collectives/selector/selector.hpp"
#include "runtime/control/local_channel.hpp"
#include "runtime/control/shm_channel.hpp"

#include <stdexcept>
#include <utility>

#include <unistd.h>

namespace hvd::test {
namespace {

constexpr std::chrono::seconds kLimit{20};

template <class T>
T value_or_throw(Result<T> result) {
    if (!result) {
        throw Exception(result.error());
    }
    return std::move(result).value();
}

coll::Topology topology_of(int rank, int size) {
    return {.rank = rank, .size = size, .local_rank = rank, .local_size = size};
}

std::vector<std::size_t> segments_for(int size) {
    return {rt::ShmChannel::segment_bytes(size), coll::local_segment_bytes(topology_of(0, size))};
}

}  // namespace

std::vector<rt::Operation*> EngineRank::submit(std::vector<rt::Request> requests) {
    return value_or_throw(engine->submit(requests));
}

void EngineRank::finish(std::span<rt::Operation* const> operations) {
    const auto outcome = engine->wait(operations, Deadline::in(kLimit));
    if (outcome && *outcome == rt::Outcome::in_progress) {
        throw std::runtime_error("an operation did not end");
    }
    for (auto* operation : operations) {
        value_or_throw(tickets.release(*operation));
    }
    value_or_throw(outcome);
}

void EngineRank::run(std::vector<rt::Request> requests) {
    const auto operations = submit(std::move(requests));
    finish(operations);
}

std::unique_ptr<EngineRank> start_engine(std::unique_ptr<coll::LocalGroup> group,
                                         const EngineTraits& traits) {
    auto self = std::make_unique<EngineRank>();
    self->group = std::move(group);
    const auto topology = topology_of(self->rank(), self->size());
    std::unique_ptr<rt::Channel> channel;
    if (self->group) {
        channel = std::make_unique<rt::ShmChannel>(*self->group, 0, "testhost");
    } else {
        channel = std::make_unique<rt::LocalChannel>();
    }
    std::optional<rt::Coordinator> coordinator;
    if (topology.rank == 0) {
        coordinator.emplace(topology.size,
                            rt::CacheLimits{.capacity = traits.cache_capacity.value_or(10'000),
                                            .ids = rt::ShmChannel::id_count(),
                                            .quarantine = rt::ShmChannel::quarantine()});
    }
    rt::EngineConfig config;
    config.cycle_time = traits.cycle_time;
    self->engine = std::make_unique<rt::Engine>(
        rt::Engine::Setup{
            .reactor = std::make_unique<coll::Reactor>(),
            .channel = std::move(channel),
            .coordinator = std::move(coordinator),
            .executor = {.backends = coll::create_backends({.topology = topology,
                                                            .local_group = self->group.get(),
                                                            .local_segment = 1}),
                         .select = coll::select,
                         .fusion_bytes = traits.fusion_bytes,
                         .rank = topology.rank},
            .config = config,
            .on_peer_lost = [rank = self.get()](int peer,
                                                std::string_view) { rank->lost_peer = peer; },
            .force_hand_over = traits.force_hand_over},
        self->tickets);
    return self;
}

std::unique_ptr<EngineRank> join_world(int rank,
                                       int size,
                                       const std::string& socket,
                                       const EngineTraits& traits) {
    if (size == 1) {
        return start_engine(nullptr, traits);
    }
    coll::LocalMeeting meeting;
    meeting.local_rank = rank;
    meeting.local_size = size;
    meeting.socket = socket;
    meeting.segments = segments_for(size);
    auto group = value_or_throw(coll::LocalGroup::meet(meeting, Deadline::in(kLimit)));
    return start_engine(std::move(group), traits);
}

std::vector<std::unique_ptr<EngineRank>> thread_world(int size, const EngineTraits& traits) {
    std::vector<std::unique_ptr<EngineRank>> ranks;
    const auto segments = segments_for(size);
    for (auto& group : value_or_throw(coll::LocalGroup::among_threads(size, segments))) {
        ranks.push_back(start_engine(std::move(group), traits));
    }
    return ranks;
}

rt::Request allreduce(std::string name, std::span<float> data, coll::ReduceOp op) {
    rt::Request request;
    request.name = std::move(name);
    request.signature.reduce = op;
    request.signature.shape = {static_cast<std::int64_t>(data.size())};
    request.in = reinterpret_cast<const std::byte*>(data.data());
    request.out = reinterpret_cast<std::byte*>(data.data());
    request.has_out = true;
    return request;
}

void require(bool condition, const std::string& message) {
    if (!condition) {
        throw std::runtime_error(message);
    }
}

}  // namespace hvd::test
