// SPDX-License-Identifier: Apache-2.0
//
// Which MPI an `mpirun` belongs to, from what it says about itself; and what is no MPI's.
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
    intel,       // hydra with flags of its own
    jsrun,       // IBM's Job Step Manager, which --jsrun names; nothing is asked
};

/// "Open MPI 4".
[[nodiscard]] std::string_view to_string(Kind kind) noexcept;

/// Whether it is started by hydra.
[[nodiscard]] bool is_hydra(Kind kind) noexcept;

/// Reads the output of `program --version`. Errors: unsupported, with what it said.
[[nodiscard]] Result<Kind> detect_kind(std::string_view version_text, std::string_view program);

}  // namespace hvd::launch::mpi
