// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/loader.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/mpi_plugins.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <dlfcn.h>

namespace hvd::coll::mpi {
namespace {

std::string loader_error() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps one text for each thread
    const char* text = ::dlerror();
    return text == nullptr ? "unknown error" : text;
}

/// Open MPI's MPI_COMM_WORLD is an object with this name; MPICH's is a number.
bool is_open_mpi(void* library) {
    return ::dlsym(library, "ompi_mpi_comm_world") != nullptr;
}

Result<void*> open_first(const LibraryChoice& choice) {
    std::vector<std::string> failures;
    for (const auto& name : choice.names) {
        // Global, because the plugin has no NEEDED entry; a library that was loaded as somebody's
        // dependency becomes global by this.
        void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (library == nullptr) {
            failures.push_back(loader_error());
        } else if (::dlsym(library, "MPI_Init_thread") == nullptr) {
            failures.push_back(name + ": it is not an MPI library");
        } else {
            return library;
        }
    }
    return Error{Errc::unsupported, "no MPI library can be loaded (" + choice.reason +
                                        "): " + join(failures, "; ") +
                                        ": set LD_LIBRARY_PATH to its folder, or " +
                                        std::string(kEnvLibrary) + " to the file"};
}

}  // namespace

Result<LibraryChoice> choose_library(const Environment& environment,
                                     std::span<const std::string_view> loaded) {
    if (const auto name = find(environment, kEnvLibrary); name && !name->empty()) {
        return LibraryChoice{.names = {*name}, .reason = std::string(kEnvLibrary) + "=" + *name};
    }
    if (loaded.size() > 1) {
        return Error{Errc::invalid_argument, "this process has loaded two MPI libraries, " +
                                                 std::string(loaded[0]) + " and " +
                                                 std::string(loaded[1]) + ": name one in " +
                                                 std::string(kEnvLibrary)};
    }
    if (loaded.size() == 1) {
        return LibraryChoice{.names = {std::string(loaded[0])},
                             .reason = "this process has it loaded"};
    }
    if (find(environment, "OMPI_COMM_WORLD_SIZE")) {
        return LibraryChoice{.names = {std::string(kOpenMpiLibrary)},
                             .reason = "Open MPI's mpirun started this process"};
    }
    if (find(environment, "PMI_RANK")) {
        return LibraryChoice{
            .names = {std::string(kMpichLibrary), std::string(kDebianMpichLibrary)},
            .reason = "mpiexec of MPICH or its kin started this process"};
    }
    return Error{
        Errc::unsupported,
        "no mpirun or mpiexec has started this process, and no MPI library is loaded in "
        "it: start the ranks with 'mpirun -np N --bind-to none COMMAND', or name a library "
        "in " +
            std::string(kEnvLibrary)};
}

std::vector<std::string_view> loaded_libraries() {
    std::vector<std::string_view> loaded;
    std::vector<void*> libraries;  // one may be known under two names
    for (const auto name : kKnownLibraries) {
        void* const library = ::dlopen(name.data(), RTLD_NOW | RTLD_NOLOAD);
        if (library == nullptr) {
            continue;
        }
        (void)::dlclose(library);
        if (std::ranges::find(libraries, library) == libraries.end()) {
            libraries.push_back(library);
            loaded.push_back(name);
        }
    }
    return loaded;
}

Result<Library> open_library(const LibraryChoice& choice,
                             const std::filesystem::path& plugin_folder) {
    HVD_TRY(void* const library, open_first(choice));
    const auto path = plugin_folder / (is_open_mpi(library) ? kOpenMpiPlugin : kMpichPlugin);
    void* const plugin = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
        return Error{Errc::unsupported, "the MPI plugin cannot be loaded: " + loader_error() +
                                            ": this build has none for this MPI, or the "
                                            "installation is incomplete"};
    }
    const auto* table = static_cast<const HvdMpiTable*>(::dlsym(plugin, kTableSymbol));
    if (table == nullptr || table->bytes != sizeof(HvdMpiTable)) {
        return Error{Errc::unsupported,
                     path.string() + " is of another version: reinstall horovod as a whole"};
    }
    std::array<char, 256> name{};
    (void)table->describe(name.data(), name.size());
    return Library{.table = table, .name = name.data()};
}

}  // namespace hvd::coll::mpi
