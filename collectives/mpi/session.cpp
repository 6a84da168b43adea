// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/session.hpp"

#include "collectives/mpi/watch.hpp"

#include <utility>

namespace hvd::coll::mpi {
namespace {

Result<HvdMpiState> query(const HvdMpiTable& table) {
    HvdMpiState state{};
    if (const int code = table.query(&state); code != 0) {
        return mpi_error(table, code, "MPI_Initialized");
    }
    return state;
}

Result<HvdMpiState> started(const Library& library, bool wants_threads, Deadline deadline) {
    const auto& table = *library.table;
    HVD_TRY(auto state, query(table));
    if (state.is_finalized != 0) {
        return Error{Errc::unavailable,
                     "MPI_Finalize has been called in this process, after which MPI cannot start "
                     "again: call hvd.init() before it, and hvd.shutdown() too"};
    }
    const bool is_by_us = state.is_started == 0;
    if (is_by_us) {
        const Watch watch(deadline, "MPI_Init_thread",
                          "not all processes that mpirun started have called hvd.init, or " +
                              library.name +
                              " cannot reach them: look at the others, or raise "
                              "HOROVOD_START_TIMEOUT");
        if (const int code = table.start(wants_threads ? 1 : 0); code != 0) {
            return mpi_error(table, code, "MPI_Init_thread");
        }
        HVD_TRY(state, query(table));
    }
    if (state.may_serialize == 0) {
        return Error{Errc::unsupported,
                     library.name +
                         (is_by_us ? " cannot be called by several threads"
                                   : " was started by another part of this program for "
                                     "one thread only") +
                         ", but a thread of the runtime calls it too: MPI_Init_thread with "
                         "MPI_THREAD_MULTIPLE is right (mpi4py does it, unless mpi4py.rc.threads "
                         "is False), or hvd.init() before all other uses of MPI"};
    }
    return state;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::start(const Options& options, Deadline deadline) {
    HVD_TRY(const auto choice, choose_library(options.environment, loaded_libraries()));
    HVD_TRY(auto library, open_library(choice, options.plugin_folder));
    HVD_TRY(const auto state, started(library, options.wants_threads, deadline));
    auto communicator = library.table->world();
    if (options.communicator != nullptr) {
        communicator = library.table->communicator_at(options.communicator);
        if (communicator == 0) {
            return Error{Errc::invalid_argument,
                         "the communicator is MPI_COMM_NULL: only processes that are in it call "
                         "hvd.init(comm=...)"};
        }
    }
    return std::unique_ptr<Session>(
        new Session(std::move(library), communicator, state.has_full_threads != 0));
}

Result<Communicator> Session::communicate(Deadline deadline) const {
    return Communicator::duplicate(library_, communicator_, deadline);
}

}  // namespace hvd::coll::mpi
