// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace hvd::launch::agent {

/// A launcher of MPI as the shim finds it: by its variables, not by its name.
struct MpiLauncher {
    std::string_view word;        // of coll::kLauncherVariables
    std::string_view name;        // as printed
    bool starts_in_turn = false;  // one rank after the other, from one thread
};

// The first whose variables are set counts: Open MPI's mpirun and jsrun also set those of PMIx.
inline constexpr std::array<MpiLauncher, 4> kMpiLaunchers{{
    {"ompi", "mpirun of Open MPI"},
    {"pmi", "a launcher with PMI", true},
    {"jsrun", "jsrun"},
    {"pmix", "a launcher with PMIx"},
}};

/// How the variables begin by which a task finds its MPI.
inline constexpr std::array<std::string_view, 10> kMpiVariables{
    "OMPI_", "OPAL_", "PMIX_", "PRTE_", "PMI_", "HYDRA_", "HYDI_", "MPI_", "I_MPI_", "JSM_"};

}  // namespace hvd::launch::agent
