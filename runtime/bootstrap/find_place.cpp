// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/find_place.hpp"

#include "collectives/base/process_ancestry.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "runtime/bootstrap/external_place.hpp"
#include "runtime/bootstrap/key_value_store.hpp"
#include "runtime/bootstrap/mpi_store.hpp"

#include <string>
#include <utility>

namespace hvd::rt {
namespace {

/// Under our launcher: through the store of the agent.
Result<WorldPlace> place_by_agent(const PlaceSearch& search, Deadline deadline) {
    HVD_TRY(const auto contract, coll::decode_launch_contract(search.environment));
    WorldPlace place;
    place.topology = contract.topology;
    place.host = contract.hostname;
    place.host_id = contract.agent_socket;
    place.job = contract.job_id;
    place.source = describe(coll::Launcher::horovodrun);
    HVD_TRY(place.agent, coll::AgentStore::connect(contract, deadline));
    const int world = place.agent->first_world() + search.generation;
    place.prefix = coll::world_prefix(world);
    if (contract.may_shrink && world > 0) {
        place.reduced_world = world;
    }
    place.needs_tcp = place.topology.local_size != place.topology.size ||
                      search.config.cpu_operations == CpuOperations::tcp;
    return place;
}

/// Of the launcher's server, where its variables do not tell. One that cannot be asked is an error:
/// a world of one would be one by each of the ranks.
Result<int> ask_for_size(const Environment& environment, Deadline deadline) {
    const auto server = find_key_value_store(environment, 0, deadline);
    const auto size = server ? (*server)->world_size() : std::nullopt;
    if (!size) {
        return Error{Errc::unavailable,
                     "PMIX_RANK=" + find(environment, "PMIX_RANK").value_or("") +
                         " says that a launcher with PMIx has started this process, but not of "
                         "how many ranks: " +
                         (server ? std::string((*server)->name()) + " does not tell it either"
                                 : server.error().message) +
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
           is_started_by("TORCHELASTIC_RUN_ID=", launch.job_entry);
}

/// The launcher that started this process, with its rank and size.
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

Result<WorldPlace> find_place_by_launcher(PlaceSearch& search, Deadline deadline) {
    HVD_TRY(const auto launch, find_launch(search.environment, deadline));
    if (launch.launcher == coll::Launcher::horovodrun) {
        return place_by_agent(search, deadline);
    }
    LauncherMpi mpi(search.config, search.environment);
    HVD_TRY(auto place, place_by_external_launcher(launch,
                                                   {.environment = search.environment,
                                                    .config = search.config,
                                                    .generation = search.generation,
                                                    .mpi = &mpi},
                                                   deadline));
    place.job = launch.job;
    search.started_mpi = mpi.take_session();
    return place;
}

Result<WorldPlace> find_place_by_communicator(PlaceSearch& search, Deadline deadline) {
    HVD_TRY(search.mpi, join_communicator(search.mpi_communicator, search.config,
                                          search.environment, deadline));
    HVD_TRY(const bool is_single, is_alone(*search.mpi));
    if (is_single) {
        HVD_TRY(const auto launch, find_launch(search.environment, deadline));
        if (launch.size > 1) {
            return alone_in_mpi(*search.mpi, launch);
        }
    }
    HVD_TRY(const auto generation,
            agree_on_generation(*search.mpi, search.environment, search.generation, deadline));
    if (!generation) {
        return place_by_communicator(*search.mpi, search.config, search.environment, deadline);
    }
    search.generation = *generation;
    search.next_generation = *generation + 1;
    HVD_TRY(auto place, place_by_agent(search, deadline));
    place.reduced_world.reset();  // the ranks of a communicator are all there or none
    return place;
}

}  // namespace

Result<WorldPlace> find_place(PlaceSearch& search, Deadline deadline) {
    if (search.mpi_communicator != nullptr) {
        return find_place_by_communicator(search, deadline);
    }
    HVD_TRY(auto place, find_place_by_launcher(search, deadline));
    if (search.config.cpu_operations == CpuOperations::mpi && place.topology.size > 1) {
        HVD_TRY_STATUS(prepare_mpi(place, search.environment));
    }
    return place;
}

}  // namespace hvd::rt
