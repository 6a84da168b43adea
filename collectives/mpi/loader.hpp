// SPDX-License-Identifier: Apache-2.0
//
// Which MPI library this process uses, and the plugin that speaks its ABI.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/mpi/table.hpp"

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::coll::mpi {

/// Names the MPI library to load, where neither the process nor its launcher has one.
inline constexpr std::string_view kEnvLibrary = "HOROVOD_MPI_LIBRARY";

/// File names under which MPI libraries are known: Open MPI 3 to 5; MPICH, Intel MPI and MVAPICH;
/// MPICH of Debian.
inline constexpr std::string_view kOpenMpiLibrary = "libmpi.so.40";
inline constexpr std::string_view kMpichLibrary = "libmpi.so.12";
inline constexpr std::string_view kDebianMpichLibrary = "libmpich.so.12";
inline constexpr std::array kKnownLibraries{kOpenMpiLibrary, kMpichLibrary, kDebianMpichLibrary};

/// The MPI library to open: the first of `names` that can be opened.
struct LibraryChoice {
    std::vector<std::string> names;
    std::string reason;  // for messages: "mpirun of Open MPI started this process"

    friend bool operator==(const LibraryChoice&, const LibraryChoice&) = default;
};

/// The user's word first, then the MPI that the process has loaded, then that of the launcher.
/// Pure. Errors: invalid_argument where two MPIs are loaded; unsupported where nothing points at
/// any.
[[nodiscard]] Result<LibraryChoice> choose_library(const Environment& environment,
                                                   std::span<const std::string_view> loaded);

/// Those of kKnownLibraries that this process has loaded.
[[nodiscard]] std::vector<std::string_view> loaded_libraries();

/// An MPI library and its plugin. A value: neither is ever unloaded.
struct Library {
    const HvdMpiTable* table = nullptr;
    std::string name;  // as it describes itself
};

/// Makes the chosen library's symbols global and loads the plugin that belongs to it. Errors:
/// unsupported, with what was tried and what to do.
[[nodiscard]] Result<Library> open_library(const LibraryChoice& choice,
                                           const std::filesystem::path& plugin_folder);

}  // namespace hvd::coll::mpi
