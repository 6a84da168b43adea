// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/mpi_plugins.hpp"

#include <system_error>

namespace hvd::coll {

bool has_mpi_plugin(const std::filesystem::path& folder) {
    std::error_code ignored;
    return std::filesystem::exists(folder / kOpenMpiPlugin, ignored) ||
           std::filesystem::exists(folder / kMpichPlugin, ignored);
}

}  // namespace hvd::coll
