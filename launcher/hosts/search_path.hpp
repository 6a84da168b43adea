// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"

#include <string_view>

namespace hvd::launch {

/// Whether a folder of PATH in `environment` has a program of that name for us.
[[nodiscard]] bool has_program(const Environment& environment, std::string_view name);

}  // namespace hvd::launch
