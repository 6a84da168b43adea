// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/world.hpp"

#include "runtime/control/shm_channel.hpp"
#include "runtime/control/tcp_channel.hpp"
#include "tests/simulation/engine/program.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hvd::rt {

/// In the place of config.cpp's: none. A deadlock would only be found later.
StallLimits stall_limits(const EngineConfig& /*config*/) {
    return {};
}

}  // namespace hvd::rt

namespace hvd::sim {
namespace {

// Rank 0 uses most of it for the sets of others, which are slow here.
constexpr std::chrono::seconds kStopLimit{100};

const Traits* current_traits = nullptr;

coll::ProcessSet world_set(int rank, const Traits& traits) {
    coll::ProcessSet world;
    world.ranks.resize(static_cast<std::size_t>(traits.ranks));
    std::iota(world.ranks.begin(), world.ranks.end(), 0);
    world.hosts.assign(world.ranks.size(), 0);
    world.place = rank;
    return world;
}

}  // namespace

bool allocation_fails() noexcept {
    return current_traits != nullptr && current_traits->allocation_fails_one_in != 0 &&
           Scheduler::is_inside_fiber() &&
           Scheduler::current().random().one_in(current_traits->allocation_fails_one_in);
}

World::World(std::uint64_t seed, Traits traits, Plan plan)
    : seed_(seed),
      traits_(traits),
      plan_(std::move(plan)),
      scheduler_(mix(seed, 4), traits_.habits),
      files_(traits_.delays),
      fabric_(traits_.fabric),
      is_alive_(static_cast<std::size_t>(traits_.ranks), true) {
    current_traits = &traits_;
    for (int rank = 0; rank < traits_.ranks; ++rank) {
        ranks_.push_back(std::make_unique<Rank>());
        ranks_.back()->set_ids[0] = 0;
    }
    connect();
}

World::~World() {
    for (auto& rank : ranks_) {
        // Of a rank that died, or of a failed schedule: its threads hold its parts.
        if (rank->engine != nullptr) {
            (void)rank->engine.release();
            (void)rank->tickets.release();
            (void)rank->group.release();
            (void)rank->mesh.release();
        }
    }
    current_traits = nullptr;
}

void World::connect() {
    const auto size = static_cast<std::size_t>(traits_.ranks);
    if (!traits_.is_tcp) {
        host_ = std::make_unique<coll::SharedHost>(traits_.ranks,
                                                   rt::ShmChannel::segment_bytes(traits_.ranks));
        return;
    }
    for (auto& rank : ranks_) {
        rank->sockets.assign(size, -1);
    }
    for (std::size_t peer = 1; peer < size; ++peer) {
        const auto [first, second] = files_.make_sockets();
        ranks_.front()->sockets[peer] = first;
        ranks_[peer]->sockets[0] = second;
    }
}

std::unique_ptr<rt::Channel> World::make_channel(int rank) {
    auto& self = this->rank(rank);
    if (traits_.is_tcp) {
        self.mesh = std::make_unique<coll::net::Mesh>(rank, self.sockets);
        return std::make_unique<rt::TcpChannel>(*self.mesh, 1);
    }
    self.group = std::make_unique<coll::LocalGroup>(rank, *host_);
    return std::make_unique<rt::ShmChannel>(*self.group, 0, "host");
}

void World::start(int rank) {
    auto& self = this->rank(rank);
    auto reactor = std::make_unique<coll::Reactor>();
    rt::Engine::Setup setup{.progress = {}, .world = world_set(rank, traits_)};
    auto& progress = setup.progress;
    progress.executor.backends.all.push_back(std::make_unique<SimBackend>(rank, fabric_, *reactor));
    progress.executor.backends.select = [](std::span<const std::unique_ptr<coll::Backend>> backends,
                                           const coll::Task&, const coll::ProcessSet&) {
        return backends.front().get();
    };
    progress.reactor = std::move(reactor);
    progress.channel = make_channel(rank);
    progress.config.cycle_time = std::chrono::microseconds(traits_.cycle_us);
    if (rank == 0) {
        progress.config.fusion_bytes = traits_.fusion_bytes;
        progress.coordinator.emplace(traits_.ranks,
                                     rt::CacheLimits{.capacity = traits_.cache_capacity,
                                                     .ids = rt::ShmChannel::id_count(),
                                                     .quarantine = rt::ShmChannel::quarantine()});
    }
    self.tickets = std::make_unique<rt::TicketTable>();
    self.engine = std::make_unique<rt::Engine>(std::move(setup), *self.tickets);
}

void World::run_rank(int rank) {
    auto& self = this->rank(rank);
    start(rank);
    const auto threads = 1 + mix(seed_, static_cast<std::uint64_t>(rank), 5) % 3;
    self.thread_phase.assign(threads, 0);
    self.running_threads = threads;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        scheduler_.spawn(rank, "caller" + std::to_string(thread), [this, rank, thread, threads] {
            Program(*this, rank, thread, threads).run();
            --this->rank(rank).running_threads;
            scheduler_.note_change();
        });
    }
    // A rank in which something has failed leaves though its other threads wait, as a program ends
    // at an exception: another rank may wait for the next operations of those threads.
    (void)scheduler_.wait("its callers",
                          [&self] { return self.running_threads == 0 || self.has_given_up; });
    trace([] { return "stops"; });
    const auto begin = scheduler_.now();
    self.engine->stop(Deadline::in(kStopLimit));
    if (!is_disturbed_ && scheduler_.now() - begin >= kStopLimit) {
        scheduler_.fail("rank " + std::to_string(rank) + ": stopping took all of its limit");
    }
    (void)scheduler_.wait("its callers", [&self] { return self.running_threads == 0; });
    self.engine.reset();
    self.tickets.reset();
    end_process(rank, false);
}

void World::end_process(int rank, bool is_death) {
    auto& self = this->rank(rank);
    is_alive_[static_cast<std::size_t>(rank)] = false;
    for (const int socket : self.sockets) {
        if (socket >= 0 && is_death) {
            files_.get<SocketFile>(socket).reset();
        } else if (socket >= 0) {
            files_.close(socket);
        }
    }
    if (host_ != nullptr) {
        files_.get<EventFile>(host_->pidfds[static_cast<std::size_t>(rank)]).notify();
    }
    trace([&] { return "rank " + std::to_string(rank) + (is_death ? " dies" : " ends"); });
    if (is_death) {
        scheduler_.kill(rank);
    }
}

std::string World::run() {
    for (int rank = 0; rank < traits_.ranks; ++rank) {
        scheduler_.spawn(rank, "main", [this, rank] { run_rank(rank); });
    }
    if (traits_.doomed >= 0) {
        scheduler_.spawn(-1, "fate", [this] {
            const auto at = scheduler_.now() + std::chrono::microseconds(traits_.dies_after_us);
            (void)scheduler_.wait(
                "its time", [] { return false; }, at);
            if (is_alive_[static_cast<std::size_t>(traits_.doomed)]) {
                disturb();
                end_process(traits_.doomed, true);
            }
        });
    }
    return scheduler_.run();
}

void World::note_ending(const Item& item, int rank, Ending ending) {
    const auto [found, is_first] = endings_.try_emplace(item.id, rank, ending);
    if (!is_first && found->second.second != ending && !is_disturbed_) {
        scheduler_.fail("divergence: #" + std::to_string(item.id) +
                        (ending == Ending::ok ? " ended well on rank " : " failed on rank ") +
                        std::to_string(rank) + ", but not on rank " +
                        std::to_string(found->second.first));
    }
}

}  // namespace hvd::sim
