// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/engine/engine_rank.hpp"

#include "collectives/selector/selector.hpp"
#include "runtime/control/shm_channel.hpp"
#include "tests/integration/engine/broken_backend.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

namespace hvd::test {
namespace {

constexpr std::chrono::seconds kLimit{20};

}  // namespace

std::vector<rt::Operation*> EngineRank::submit(std::vector<rt::Request> requests) const {
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

Error EngineRank::failure_of(std::vector<rt::Request> requests) {
    try {
        run(std::move(requests));
    } catch (const Exception& exception) {
        return exception.error();
    }
    throw std::runtime_error("nothing failed");
}

std::vector<rt::Operation*> announce(EngineRank& self, std::vector<rt::Request> requests) {
    const auto before = self.engine->counters().names_bytes;
    auto operations = self.submit(std::move(requests));
    for (int round = 0; round < 2000 && self.engine->counters().names_bytes == before; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    require(self.engine->counters().names_bytes > before, "nothing was announced");
    return operations;
}

void start_engine(EngineRank& self,
                  std::unique_ptr<rt::Channel> channel,
                  const EngineTraits& traits) {
    const coll::Topology topology{.rank = self.rank(),
                                  .size = self.size(),
                                  .local_rank = self.rank(),
                                  .local_size = self.size()};
    std::optional<rt::Coordinator> coordinator;
    if (topology.rank == 0) {
        coordinator.emplace(topology.size,
                            rt::CacheLimits{.capacity = traits.cache_capacity.value_or(10'000),
                                            .ids = rt::ShmChannel::id_count(),
                                            .quarantine = rt::ShmChannel::quarantine()});
    }
    rt::EngineConfig config;
    config.cycle_time = traits.cycle_time;
    config.fusion_bytes = traits.fusion_bytes;
    config.is_stall_checked = traits.stalls.warning.has_value();
    config.stall_warning = traits.stalls.warning.value_or(config.stall_warning);
    config.stall_shutdown = traits.stalls.shutdown.value_or(config.stall_shutdown);
    auto backends = coll::create_backends({.topology = topology,
                                           .local_group = self.group.get(),
                                           .local_segment = 1,
                                           .mesh = self.mesh.get()});
    if (traits.failing_rank) {
        backends.push_back(std::make_unique<BrokenBackend>(topology.rank == *traits.failing_rank));
    }
    self.engine = std::make_unique<rt::Engine>(
        rt::Engine::Setup{
            .progress = {
                .reactor = std::make_unique<coll::Reactor>(),
                .channel = std::move(channel),
                .coordinator = std::move(coordinator),
                .executor = {.backends = {.all = std::move(backends), .select = coll::select}},
                .config = config,
                .on_stall =
                    [&self](const std::string& line) {
                        const std::lock_guard lock(self.mutex);
                        self.stalls.push_back(line);
                    },
                .on_stalled =
                    [&self](std::span<const int> missing, const std::string&) {
                        self.blamed.assign(missing.begin(), missing.end());
                    },
                .on_peer_lost = [&self](int peer, std::string_view) { self.lost_peer = peer; }},
            .world = coll::world_of(topology),
            .force_hand_over = traits.force_hand_over},
        self.tickets);
    self.membership = std::make_unique<rt::Membership>(*self.engine, self.tickets);
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the engine owns the reactor

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

int add_set(EngineRank& self, const std::vector<int>& ranks) {
    const auto added = value_or_throw(self.membership->add(ranks, Deadline::in(kLimit)));
    require(added.is_new && added.outcome == rt::Outcome::finished, "the set was not added");
    return added.id;
}

void remove_set(EngineRank& self, int id) {
    const auto outcome = value_or_throw(self.membership->remove(id, Deadline::in(kLimit)));
    require(outcome == rt::Outcome::finished, "the set was not removed");
}

int join(EngineRank& self) {
    rt::Request request;
    request.name = "join";
    request.has_out = true;
    request.signature.kind = rt::Kind::join;
    const auto operations = self.submit({request});
    require(self.engine->wait(operations, Deadline::in(kLimit)).has_value() &&
                rt::TicketTable::is_done(*operations.front()),
            "the join did not end");
    std::int32_t last = -1;
    std::memcpy(&last, operations.front()->out, sizeof last);
    value_or_throw(self.tickets.release(*operations.front()));
    return last;
}

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

long pages_in_use() {
#if defined(HVD_SANITIZE_ADDRESS) || defined(HVD_SANITIZE_THREAD)
    return 0;  // they keep what is freed
#else
    long mapped = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> mapped >> resident;
    return resident;
#endif
}

void require(bool condition, const std::string& message) {
    if (!condition) {
        throw std::runtime_error(message);
    }
}

}  // namespace hvd::test
