// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/mpi_world.hpp"

#include "collectives/launch_contract/external_launch.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/launch_contract/mpi_plugins.hpp"
#include "runtime/bootstrap/external_place.hpp"
#include "runtime/bootstrap/mpi_store.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

namespace hvd::rt {
namespace {

constexpr std::string_view kSource = "MPI";

/// Beside the library that this code is in.
std::filesystem::path plugin_folder() {
    Dl_info here{};
    if (::dladdr(reinterpret_cast<const void*>(&is_mpi_built), &here) == 0) {
        return {};
    }
    return std::filesystem::absolute(here.dli_fname).parent_path() / "horovod";
}

Result<MpiWorld> start(const void* communicator,
                       const EngineConfig& config,
                       const Environment& environment,
                       Deadline deadline) {
    HVD_TRY(auto session, coll::mpi::Session::start({.environment = environment,
                                                     .plugin_folder = plugin_folder(),
                                                     .wants_threads = config.mpi_threads,
                                                     .communicator = communicator},
                                                    deadline));
    HVD_TRY(auto ours, session->communicate(deadline));
    return MpiWorld{.session = std::move(session), .communicator = std::move(ours)};
}

std::string describe(const coll::mpi::Communicator& communicator) {
    return "rank " + std::to_string(communicator.rank()) + " of " +
           std::to_string(communicator.size());
}

bool is_same(const coll::mpi::Communicator& communicator, const coll::Topology& topology) {
    return communicator.rank() == topology.rank && communicator.size() == topology.size;
}

/// One number of each rank, on all ranks, which all call it.
Result<std::vector<std::int32_t>> gather(coll::mpi::Communicator& all,
                                         std::int32_t own,
                                         std::string_view what,
                                         Deadline deadline) {
    auto said = std::make_unique<std::vector<std::int32_t>>(static_cast<std::size_t>(all.size()));
    (*said)[static_cast<std::size_t>(all.rank())] = own;
    coll::mpi::Layout one_of_each;
    for (int rank = 0; rank < all.size(); ++rank) {
        one_of_each.append(sizeof(own));
    }
    HVD_TRY_STATUS(
        all.allgather(std::as_writable_bytes(std::span(*said)).data(), std::move(one_of_each)));
    if (auto arrived = all.wait(deadline, "MPI_Iallgatherv of " + std::string(what)); !arrived) {
        (void)said.release();  // MPI may write it whenever it likes
        return std::move(arrived).error();
    }
    return std::move(*said);
}

/// The ranks form their group with a key that MPI carries.
Result<WorldPlace> place_on_one_host(coll::mpi::Communicator& all,
                                     const coll::mpi::Communicator& here,
                                     Deadline deadline) {
    WorldPlace place;
    place.host = host_name();
    place.source = kSource;
    place.topology = {.rank = all.rank(),
                      .size = all.size(),
                      .local_rank = here.rank(),
                      .local_size = here.size()};
    HVD_TRY(const auto drawn, coll::random_world_key());
    auto carried = std::make_unique<std::vector<std::byte>>(drawn.begin(), drawn.end());
    HVD_TRY_STATUS(all.broadcast(*carried, 0));
    if (auto arrived = all.wait(deadline, "MPI_Ibcast of the world's key"); !arrived) {
        (void)carried.release();  // MPI may write it whenever it likes
        return std::move(arrived).error();
    }
    std::ranges::copy(*carried, place.key.emplace().begin());
    return place;
}

}  // namespace

bool is_mpi_built() {
    return coll::has_mpi_plugin(plugin_folder());
}

Status prepare_mpi(WorldPlace& place, const Environment& environment) {
    const auto launch = coll::decode_mpi_launch(environment);
    const bool is_launched = launch && (launch->size == place.topology.size || launch->size == 0);
    if (place.agent && !is_launched) {
        return Error{Errc::unsupported,
                     "HOROVOD_CPU_OPERATIONS=mpi: horovodrun started these ranks itself, and MPI "
                     "knows nothing of them: start them with 'horovodrun --mpi' or 'mpirun -np N "
                     "--bind-to none COMMAND', or unset HOROVOD_CPU_OPERATIONS"};
    }
    place.group_name += "-mpi";
    place.prefix += "mpi/";
    return ok();
}

Result<MpiWorld> join_mpi(const WorldPlace& place,
                          const EngineConfig& config,
                          const Environment& environment,
                          Deadline deadline) {
    HVD_TRY(auto mpi, start(nullptr, config, environment, deadline));
    if (!is_same(mpi.communicator, place.topology)) {
        return Error{Errc::unsupported,
                     "this is rank " + std::to_string(place.topology.rank) + " of " +
                         std::to_string(place.topology.size) + " by " + std::string(place.source) +
                         ", but " + describe(mpi.communicator) + " by " + mpi.session->library() +
                         ": start the ranks with the mpirun that belongs to this MPI, or name the "
                         "right library in " +
                         std::string(coll::mpi::kEnvLibrary)};
    }
    return mpi;
}

Result<MpiWorld> join_communicator(const void* communicator,
                                   const EngineConfig& config,
                                   const Environment& environment,
                                   Deadline deadline) {
    auto mpi = start(communicator, config, environment, deadline);
    if (!mpi) {
        return std::move(mpi).error().context("hvd.init(comm=...)");
    }
    return mpi;
}

Result<bool> is_alone(const MpiWorld& mpi) {
    if (mpi.communicator.size() > 1) {
        return false;  // processes that found each other later, as by MPI_Comm_spawn
    }
    HVD_TRY(const int known, mpi.session->world_size());
    return known == 1;
}

Error alone_in_mpi(const MpiWorld& mpi, const coll::ExternalLaunch& launch) {
    return {Errc::unsupported,
            "hvd.init(comm=...): this is rank " + std::to_string(launch.rank) + " of " +
                std::to_string(launch.size) + " by " + std::string(describe(launch.launcher)) +
                ", but MPI_COMM_WORLD has one rank by " + mpi.session->library() +
                ", to which the launcher has not introduced the others: leave comm out, or start "
                "the ranks with 'horovodrun --mpi' or with the mpirun that belongs to this MPI"};
}

Result<std::optional<int>> agree_on_generation(MpiWorld& mpi,
                                               const Environment& environment,
                                               int own,
                                               Deadline deadline) {
    constexpr std::int32_t kOfAnother = -1;
    const auto contract = coll::decode_launch_contract(environment);
    const bool is_ours = contract && is_same(mpi.communicator, contract->topology);
    HVD_TRY(const auto said,
            gather(mpi.communicator, is_ours ? own : kOfAnother, "who has an agent", deadline));
    const auto [least, most] = std::ranges::minmax(said);
    return least == kOfAnother ? std::nullopt : std::optional<int>(most);
}

Result<coll::SumOrder> agree_on_order(coll::mpi::Communicator& all,
                                      const coll::Topology& topology,
                                      const EngineConfig& config,
                                      Deadline deadline) {
    if (topology.local_size == topology.size) {
        return coll::SumOrder::by_rank;
    }
    HVD_TRY(const auto said,
            gather(all, config.is_deterministic ? 1 : 0, "who wants sums in rank order", deadline));
    return std::ranges::max(said) == 1 ? coll::SumOrder::by_rank : coll::SumOrder::any;
}

Result<WorldPlace> place_by_communicator(MpiWorld& mpi,
                                         const EngineConfig& config,
                                         const Environment& environment,
                                         Deadline deadline) {
    auto& all = mpi.communicator;
    HVD_TRY(const auto here, all.of_this_host(deadline));
    if (here.size() == all.size() && config.cpu_operations != CpuOperations::tcp) {
        return place_on_one_host(all, here, deadline);
    }
    // Rank 0's key tells this world from others: no name and no number needs to.
    MpiKeyValueStore store(all);
    HVD_TRY(auto place,
            place_by_external_launcher(
                {.rank = all.rank(), .size = all.size(), .job = "mpi"},
                {.environment = environment, .config = config, .store = &store}, deadline));
    place.source = kSource;
    return place;
}

Result<std::optional<MpiWorld>> find_started_mpi(const Environment& environment,
                                                 const coll::ExternalLaunch& launch,
                                                 Deadline deadline) {
    auto session =
        coll::mpi::Session::find({.environment = environment, .plugin_folder = plugin_folder()});
    if (!session) {
        return std::optional<MpiWorld>();
    }
    HVD_TRY(auto ours, session->communicate(deadline));
    if (ours.rank() != launch.rank || ours.size() != launch.size) {
        return std::optional<MpiWorld>();
    }
    return std::optional(MpiWorld{.session = std::move(session), .communicator = std::move(ours)});
}

}  // namespace hvd::rt
