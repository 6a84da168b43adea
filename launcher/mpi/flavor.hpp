// SPDX-License-Identifier: Apache-2.0
//
// The MPI that an `mpirun` belongs to, from its version text; and launchers of no MPI.
#pragma once

#include "collectives/base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace hvd::launch::mpi {

/// Kinds whose command lines differ.
enum class Kind : std::uint8_t {
    open_mpi_4,  // ORTE; older ones too
    open_mpi_5,  // PRRTE
    spectrum,    // IBM's, made from Open MPI
    mpich,       // hydra
    intel,       // hydra with other flags
    jsrun,       // IBM's Job Step Manager, which --jsrun names; nothing is asked
};

/// "Open MPI 4".
[[nodiscard]] std::string_view to_string(Kind kind) noexcept;

/// Whether it is started by hydra.
[[nodiscard]] bool is_hydra(Kind kind) noexcept;

/// Reads the output of `program --version`. Errors: unsupported, with that output.
[[nodiscard]] Result<Kind> detect_kind(std::string_view version_text, std::string_view program);

}  // namespace hvd::launch::mpi
