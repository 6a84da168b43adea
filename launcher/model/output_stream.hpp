// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hvd::launch {

/// The two that a rank writes to.
enum class OutputStream : std::uint8_t { out, err };

}  // namespace hvd::launch
