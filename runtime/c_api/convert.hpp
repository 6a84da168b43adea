// SPDX-License-Identifier: Apache-2.0
//
// Between the structs of the C ABI and the runtime's values.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/include/hvd/hvd.h"
#include "runtime/tensor/operation.hpp"

#include <cstddef>
#include <vector>

namespace hvd::rt {

/// The ranks of a process set, ascending. Errors: invalid_argument for what is a set in no world.
[[nodiscard]] Result<std::vector<int>> read_process_set(const hvd_process_set* members);
[[nodiscard]] Result<std::vector<std::vector<int>>> read_process_sets(const hvd_process_set* sets,
                                                                      std::size_t count);

/// Reads `count` requests of a rank in a world of `world_size`.
/// Errors: invalid_argument or unsupported, naming the tensor.
[[nodiscard]] Result<std::vector<Request>> read_requests(const hvd_request* requests,
                                                         std::size_t count,
                                                         int world_size);

/// Fills the caller's struct from a finished operation.
[[nodiscard]] Status write_result(const Operation& operation, hvd_tensor* tensor);

}  // namespace hvd::rt
