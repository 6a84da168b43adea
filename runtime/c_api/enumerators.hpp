// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace hvd::rt {

/// The value of an enumerator of hvd.h, or -1.
[[nodiscard]] std::int32_t enum_value(std::string_view name) noexcept;

}  // namespace hvd::rt
