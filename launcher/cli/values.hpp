// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <chrono>
#include <string_view>

namespace hvd::launch {

inline constexpr int kLongestSeconds = 31'536'000;  // a year

/// A whole number in a range. Errors: "must be a whole number from LOW to HIGH".
[[nodiscard]] Result<int> whole_number(std::string_view text, int low, int high);

/// Seconds, perhaps with decimals, from `low` to a year. Errors as above.
[[nodiscard]] Result<std::chrono::milliseconds> seconds(std::string_view text, int low);

}  // namespace hvd::launch
