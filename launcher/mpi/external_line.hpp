// SPDX-License-Identifier: Apache-2.0
//
// `horovodrun mpirun -np 4 PROGRAM`: puts horovodrun in front of PROGRAM, where it is one task.
#pragma once

#include "collectives/base/result.hpp"

#include <string>
#include <vector>

namespace hvd::launch::mpi {

/// The same line with `shim` before its program. Errors: invalid_argument for an option that is not
/// known, since it may have a value that looks like the program; it shows what to write instead.
[[nodiscard]] Result<std::vector<std::string>> insert_shim(const std::vector<std::string>& line,
                                                           const std::string& shim);

}  // namespace hvd::launch::mpi
