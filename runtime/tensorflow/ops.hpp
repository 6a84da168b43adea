// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd::tf {

/// Registers every op and its CPU kernel with TensorFlow. Returns "" or the first refusal.
std::string register_ops();

}  // namespace hvd::tf
