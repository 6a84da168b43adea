// SPDX-License-Identifier: Apache-2.0
//
// Code of the library's users that the library calls.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/include/hvd/hvd.h"

#include <string_view>

namespace hvd::rt::abi {

/// Tells the callback how its operation ended: `error`, or nullptr for success.
/// Errors: internal for an exception that leaves the callback.
[[nodiscard]] Status call_back(hvd_callback done, void* argument, const Error* error);

/// Whether this thread is in such a call.
[[nodiscard]] bool is_in_callback() noexcept;

/// Errors: invalid_argument in a callback, where `function` would wait for what cannot come.
[[nodiscard]] Status refuse_in_callback(std::string_view function);

}  // namespace hvd::rt::abi
