// SPDX-License-Identifier: Apache-2.0
//
// The plugins for MPI that belong to an installation. The runtime loads them; the launcher says
// whether they are there.
#pragma once

#include <filesystem>
#include <string_view>

namespace hvd::coll {

/// In lib/horovod, beside libhorovod.so.
inline constexpr std::string_view kOpenMpiPlugin = "hvd_mpi_openmpi.so";
inline constexpr std::string_view kMpichPlugin = "hvd_mpi_mpich.so";

/// Whether the folder holds a plugin for any MPI.
[[nodiscard]] bool has_mpi_plugin(const std::filesystem::path& folder);

}  // namespace hvd::coll
