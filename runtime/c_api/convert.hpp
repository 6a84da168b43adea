// SPDX-License-Identifier: Apache-2.0
//
// Between the structs of the C ABI and the runtime's values.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/include/hvd/hvd.h"
#include "runtime/tensor/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hvd::rt {

/// Reads `count` requests. Errors: invalid_argument or unsupported, naming the tensor.
[[nodiscard]] Result<std::vector<Request>> read_requests(const hvd_request* requests,
                                                         std::size_t count,
                                                         int world_size);

/// Fills the caller's struct from a finished operation.
[[nodiscard]] Status write_result(const Operation& operation, hvd_tensor* tensor);

/// The value of an enumerator of hvd.h, or -1.
[[nodiscard]] std::int32_t enum_value(std::string_view name) noexcept;

}  // namespace hvd::rt
