// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/session.hpp"

#include "collectives/mpi/watch.hpp"

#include <string_view>
#include <utility>

#include <dlfcn.h>

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

/// Whether that library, which is loaded, has been used: an MPI that is merely there, as some
/// builds of PyTorch bring one, is left alone.
bool has_started(std::string_view name) {
    void* const library = ::dlopen(std::string(name).c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) {
        return false;
    }
    const auto initialized = reinterpret_cast<int (*)(int*)>(::dlsym(library, "MPI_Initialized"));
    int is_so = 0;
    const bool has = initialized != nullptr && initialized(&is_so) == 0 && is_so != 0;
    (void)::dlclose(library);
    return has;
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

std::unique_ptr<Session> Session::find(const Options& options) {
    const auto loaded = loaded_libraries();
    if (loaded.size() != 1 || !has_started(loaded[0])) {
        return nullptr;
    }
    const auto library =
        open_library({.names = {std::string(loaded[0])}, .reason = "this process uses it"},
                     options.plugin_folder);
    if (!library) {
        return nullptr;  // of no use, which a wish for MPI's backend would say
    }
    const auto state = query(*library->table);
    if (!state || state->is_started == 0 || state->is_finalized != 0 ||
        (state->may_serialize == 0 && state->is_main_thread == 0)) {
        return nullptr;
    }
    return std::unique_ptr<Session>(
        new Session(*library, library->table->world(), state->has_full_threads != 0));
}

Result<Communicator> Session::communicate(Deadline deadline) const {
    return Communicator::duplicate(library_, communicator_, deadline);
}

Result<int> Session::world_size() const {
    const auto& table = *library_.table;
    int rank = 0;
    int size = 0;
    if (const int code = table.rank_and_size(table.world(), &rank, &size); code != 0) {
        return mpi_error(table, code, "MPI_Comm_size");
    }
    return size;
}

}  // namespace hvd::coll::mpi
