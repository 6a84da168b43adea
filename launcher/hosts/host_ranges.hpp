// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// Slurm's short form of many names: "n[01-03,07]" → n01, n02, n03, n07; several brackets multiply
/// ("r[1-2]n[1-2]"), leading zeros are kept. A text without brackets is its own only name. Errors:
/// invalid_argument, a sentence about the bracket ("'[3-1]' counts down").
[[nodiscard]] Result<std::vector<std::string>> expand_ranges(std::string_view text);

/// Slurm's short form of a number for each node: "4(x2),2" → 4, 4, 2. Nothing if malformed or
/// absurd.
[[nodiscard]] std::optional<std::vector<int>> expand_counts(std::string_view text);

/// Splits at the commas that are outside brackets.
[[nodiscard]] std::vector<std::string_view> split_host_list(std::string_view text);

}  // namespace hvd::launch
