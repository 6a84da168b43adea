// SPDX-License-Identifier: Apache-2.0
//
// TensorFlow's types, codes and tensors in terms of hvd.h, and back.
#pragma once

#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/tf_api.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::tf {

/// Nothing for a type that no collective carries.
std::optional<hvd_dtype> to_hvd(DataType type);

std::size_t element_bytes(std::int32_t hvd_dtype);

std::vector<std::int64_t> shape_of(const Tensor* tensor);

/// A row-major tensor of the host. `shape` outlives the result.
hvd_tensor describe(const Tensor* tensor, hvd_dtype dtype, const std::vector<std::int64_t>& shape);

/// The failure of an operation in TensorFlow's terms. Its message starts with "Horovod: ".
void set_failure(Status* status, hvd_status failure, const std::string& message);

/// The result of an operation that ended well as a TensorFlow tensor of the type `type`: the
/// engine's memory itself, and the ticket is released with the tensor's last user. On failure
/// `status` says why, and the ticket stays the caller's.
TensorPtr hand_over(hvd_context* world, hvd_ticket ticket, DataType type, Status* status);

}  // namespace hvd::tf
