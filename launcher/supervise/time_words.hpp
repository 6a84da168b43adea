// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd::launch {

/// "3.2 s", "40 ms".
[[nodiscard]] std::string describe_time(double seconds);

}  // namespace hvd::launch
