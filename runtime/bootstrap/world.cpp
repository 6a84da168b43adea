// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/world.hpp"

#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/selector/selector.hpp"
#include "collectives/transport/tcp/cut_notice.hpp"
#include "runtime/bootstrap/find_place.hpp"
#include "runtime/bootstrap/host_routes.hpp"
#include "runtime/bootstrap/survivors.hpp"
#include "runtime/bootstrap/transports.hpp"
#include "runtime/control/local_channel.hpp"
#include "runtime/control/shm_channel.hpp"
#include "runtime/control/tcp_channel.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {

namespace {

constexpr std::chrono::seconds kReporterLimit{1};  // the world does without it

// Another rank may have noticed the failure, and told us, before the agent's message comes.
constexpr std::chrono::milliseconds kFailureLimit{200};

/// "within 30 s (HOROVOD_START_TIMEOUT)".
std::string describe_limit(const World::Options& options, const EngineConfig& config) {
    constexpr int kSecond = 1000;
    const auto milliseconds = options.timeout.value_or(config.start_timeout).count();
    const auto number = milliseconds % kSecond == 0 ? std::to_string(milliseconds / kSecond) + " s"
                                                    : std::to_string(milliseconds) + " ms";
    return "within " + number + (options.timeout ? "" : " (HOROVOD_START_TIMEOUT)");
}

/// Where the ranks cannot connect because one is gone or late, reports to the launcher that this
/// rank fails only because of that one. Which ones are late, the launcher knows.
Error report_cause(coll::AgentStore* agent, Error error, const std::string& limit) {
    if (agent != nullptr && error.code == Errc::unavailable) {
        if (const auto failure = agent->first_failure(Deadline::in(kFailureLimit))) {
            (void)agent->report(coll::ReportKind::peer_lost, failure->rank, failure->why);
        }
    } else if (agent != nullptr && error.code == Errc::timed_out) {
        (void)agent->report(coll::ReportKind::start_timeout, -1, limit);
    }
    return error;
}

/// The agent to which ranks of another world than horovodrun's still tell why they fail; or
/// nothing.
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

bool is_homogeneous(const coll::net::Mesh* mesh) {
    std::map<int, std::size_t> ranks_of;
    const auto leaders = mesh != nullptr ? mesh->host_leaders() : std::vector<int>{};
    for (const int leader : leaders) {
        ++ranks_of[leader];
    }
    return std::ranges::all_of(ranks_of, [&](const auto& entry) {
        return entry.second * ranks_of.size() == leaders.size();
    });
}

/// The ranks of the local group, as ranks of the world.
std::vector<int> ranks_sharing_memory(const std::vector<int>& hosts, int rank) {
    std::vector<int> ranks;
    for (std::size_t each = 0; each < hosts.size(); ++each) {
        if (hosts[each] == hosts[static_cast<std::size_t>(rank)]) {
            ranks.push_back(static_cast<int>(each));
        }
    }
    return ranks;
}

// Ids that are not in use or in quarantine must remain, whatever the user asks for.
constexpr auto kMostCached = ShmChannel::id_count() - 2 * ShmChannel::quarantine();

CacheLimits cache_limits(const EngineConfig& config) {
    return {.capacity = std::min(config.cache_capacity.value_or(kMostCached), kMostCached),
            .ids = ShmChannel::id_count(),
            .quarantine = ShmChannel::quarantine()};
}

void warn_about_settings(const Environment& environment,
                         const EngineConfig& config,
                         const Logger& log) {
    for (const auto& sentence : idle_variables(environment)) {
        log.warn(sentence);
    }
    for (const auto& sentence : unknown_variables(environment)) {
        log.warn(sentence);
    }
    if (config.cache_capacity.value_or(0) > kMostCached) {
        log.warn("HOROVOD_CACHE_CAPACITY=" + std::to_string(*config.cache_capacity) +
                 ": the agreement on " + std::to_string(kMostCached) +
                 " tensors is remembered, which is the most");
    }
    if (config.stall_shutdown.count() != 0 && !stall_limits(config).shutdown) {
        log.warn(
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS has no effect: it must be longer than "
            "HOROVOD_STALL_CHECK_TIME_SECONDS");
    }
}

}  // namespace

Result<std::unique_ptr<World>> World::join(const Options& options, TicketTable& tickets) {
    const int generation = options.generation;
    if (options.mpi_communicator == nullptr) {
        ++options.generation;  // a failed attempt counts too: every rank has made it
    }
    HVD_TRY(auto config, read_config(options.environment));
    const auto deadline = Deadline::in(options.timeout.value_or(config.start_timeout));
    PlaceSearch search{.environment = options.environment,
                       .config = config,
                       .mpi_communicator = options.mpi_communicator,
                       .generation = generation,
                       .next_generation = options.generation};
    HVD_TRY(auto place, find_place(search, deadline));
    if (auto found = leave_out_lost_ranks(place, config, deadline); !found) {
        return report_cause(place.agent.get(), std::move(found).error(),
                            describe_limit(options, config));
    }
    const Logger log("rank " + std::to_string(place.topology.rank), config.log_level,
                     config.log_time);
    if (place.topology.rank == 0) {
        warn_about_settings(options.environment, config, log);
    }

    auto transports = connect_transports(place, config, log, deadline);
    if (!transports) {
        return report_cause(place.agent.get(), std::move(transports).error(),
                            describe_limit(options, config));
    }
    std::unique_ptr<World> world(new World);
    world->topology_ = place.topology;
    world->host_ = place.host;
    world->job_ = place.job;
    world->has_dynamic_sets_ = options.has_dynamic_sets || config.has_dynamic_sets;
    world->staging_ = options.staging;
    world->devices_ = config.gpu_operations == GpuOperations::nccl ? options.devices : nullptr;
    world->mpi_ = std::move(search.started_mpi);
    world->group_ = std::move(transports->group);
    world->mesh_ = std::move(transports->mesh);
    world->hosts_ = std::move(transports->hosts);
    config.is_hierarchical = transports->is_hierarchical;  // as all ranks have agreed
    world->topology_.is_homogeneous = is_homogeneous(world->mesh_.get());
    HVD_TRY(auto communicator,
            world->use_mpi(std::move(search.mpi), place, options.environment, config, deadline));
    auto order = transports->order;
    if (communicator) {
        HVD_TRY(order, agree_on_order(*communicator, place.topology, config, deadline));
    }
    world->agent_ = std::move(place.agent);
    if (!world->agent_) {
        world->reporter_ = find_reporter(options.environment);
    }
    world->start_engine({.communicator = std::move(communicator), .order = order}, place.host,
                        config, log, tickets);
    world->start_configured_timelines(config, search.generation, log);

    log.info("world of " + std::to_string(place.topology.size) + " on " + place.host +
             ", as the variables of " + std::string(place.source) + " say");
    if (!place.warning.empty() && place.topology.rank == 0) {
        log.warn(place.warning);
    }
    if (world->mesh_) {
        report_routes({.routes = world->mesh_->host_routes(),
                       .host = place.host,
                       .agent = place.topology.local_rank == 0 ? world->agent_.get() : nullptr,
                       .is_leader = place.topology.local_rank == 0},
                      log);
    }
    return world;
}

std::unique_ptr<Channel> World::make_channel(const std::string& host) {
    if (topology_.size == 1) {
        return std::make_unique<LocalChannel>();
    }
    if (mesh_) {
        return std::make_unique<TcpChannel>(*mesh_, topology_.local_size, agent_.get(),
                                            group_.get());
    }
    return std::make_unique<ShmChannel>(*group_, kControlSegment, host);
}

void World::start_engine(MpiParts mpi,
                         const std::string& host,
                         const EngineConfig& config,
                         const Logger& log,
                         TicketTable& tickets) {
    std::optional<Coordinator> coordinator;
    if (topology_.rank == 0) {
        coordinator.emplace(topology_.size, cache_limits(config));
    }
    auto reactor = std::make_unique<coll::Reactor>();
    auto backends =
        coll::create_backends({.topology = topology_,
                               .local_group = group_.get(),
                               .local_segment = kBackendSegment,
                               .local_ranks = ranks_sharing_memory(hosts_, topology_.rank),
                               .mesh = mesh_.get(),
                               .communicator = std::move(mpi.communicator),
                               .order = mpi.order,
                               .reactor = reactor.get(),
                               .devices = devices_,
                               .nccl = {.library = config.nccl_library,
                                        .connect_limit = config.start_timeout,
                                        .kept_bytes = config.gpu_buffer_limit},
                               .is_hierarchical = config.is_hierarchical,
                               .log = log});
    auto all = coll::world_of(topology_);
    all.hosts = hosts_;
    const coll::Task on_device{.device = {.kind = coll::Device::Kind::cuda}};
    if (coll::select(backends, on_device, all) == nullptr) {
        devices_ = nullptr;  // a build without NCCL: they travel through the host
    }
    engine_ = std::make_unique<Engine>(
        Engine::Setup{
            .progress = {
                .reactor = std::move(reactor),
                .channel = make_channel(host),
                .coordinator = std::move(coordinator),
                .executor = {.backends = {.all = std::move(backends), .select = coll::select}},
                .config = config,
                .on_stall = [log](const std::string& line) { log.warn(line); },
                .on_stalled =
                    [this](std::span<const int> missing, const std::string& why) {
                        for (const int rank : missing) {
                            (void)report(coll::ReportKind::stalled, rank, why);
                        }
                    },
                .on_peer_lost =
                    [this](int peer, std::string_view why) {
                        // The operations that fail say the same; nothing is left to do
                        // about it.
                        const int cause = coll::net::is_cut_notice(why) ? -1 : peer;
                        (void)report(coll::ReportKind::peer_lost, cause, why);
                    }},
            .world = std::move(all),
            .staging = staging_,
            .devices = devices_},
        tickets);
    membership_ = std::make_unique<Membership>(*engine_, tickets);
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

Status World::write_timeline(const std::string& path, bool mark_cycles) {
    return engine_->start_timeline(
        {.path = path,
         .mark_cycles = mark_cycles,
         .origin = {.rank = topology_.rank, .size = topology_.size, .host = host_, .job = job_}});
}

Status World::start_timeline(const std::string& path, bool mark_cycles) {
    return topology_.rank == 0 ? write_timeline(path, mark_cycles) : ok();
}

Status World::stop_timeline() {
    return topology_.rank == 0 ? engine_->stop_timeline() : ok();
}

/// A file that cannot be written ends no training.
void World::start_configured_timelines(const EngineConfig& config,
                                       int generation,
                                       const Logger& log) {
    std::string path = config.timeline == "DYNAMIC" ? "" : config.timeline;
    if (!config.timeline_folder.empty()) {
        // The ranks of a later world may have other numbers: its traces have their own folder.
        const auto folder =
            config.timeline_folder +
            (generation == 0 ? std::string() : "/world-" + std::to_string(generation + 1));
        std::error_code ignored;  // Timeline::start reports that the file cannot be made
        (void)std::filesystem::create_directories(folder, ignored);
        path = folder + "/rank-" + std::to_string(topology_.rank) + ".json";
    } else if (topology_.rank != 0) {
        return;
    }
    if (path.empty()) {
        return;
    }
    if (const auto started = write_timeline(path, config.mark_cycles); !started) {
        log.warn(started.error().message + ": no timeline is written");
    }
}

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
