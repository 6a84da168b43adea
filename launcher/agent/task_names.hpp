// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace hvd::launch::agent {

/// The variables by which a launcher of MPI tells a process its rank.
struct TaskNames {
    std::string_view launcher;  // for people
    std::string_view rank;
    std::string_view size;        // or empty
    bool starts_in_turn = false;  // one rank after the other, from one thread
};

// The first that is set counts: Open MPI's mpirun and jsrun also set the variables of PMIx.
inline constexpr std::array<TaskNames, 4> kTaskNames{{
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"a launcher with PMI", "PMI_RANK", "PMI_SIZE", true},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    {"a launcher with PMIx", "PMIX_RANK", ""},
}};

/// How the variables begin by which a task finds its MPI.
inline constexpr std::array<std::string_view, 10> kMpiVariables{
    "OMPI_", "OPAL_", "PMIX_", "PRTE_", "PMI_", "HYDRA_", "HYDI_", "MPI_", "I_MPI_", "JSM_"};

}  // namespace hvd::launch::agent
