// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"

#include <string_view>

namespace hvd {

/// An Error for a process or thread that could not be started: "`what`: Resource temporarily
/// unavailable; ...", with the limit and the remedy where a limit is the reason. `error_number` is
/// errno.
[[nodiscard]] Error process_error(std::string_view what, int error_number);

}  // namespace hvd
