// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/process_set.hpp"
#include "runtime/tensor/operation.hpp"

namespace hvd::rt {

/// Completes the signature of an operation of `set`, and checks what this rank alone can see to be
/// wrong. `world` tells which rank this is. Errors: invalid_argument.
[[nodiscard]] Status admit_to_set(Operation& operation,
                                  const coll::ProcessSet& set,
                                  const coll::ProcessSet& world);

}  // namespace hvd::rt
