// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <string>

namespace hvd {

/// 16 random bytes of the kernel's as 32 hexadecimal digits: no two are ever the same. Errors: as
/// of system_error.
[[nodiscard]] Result<std::string> random_id();

}  // namespace hvd
