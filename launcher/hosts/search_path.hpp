// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"

#include <filesystem>
#include <optional>
#include <string_view>

namespace hvd::launch {

/// The executable file that a command without a slash means; `path` is the value of PATH, and its
/// relative parts begin in `directory`. A folder is no program.
[[nodiscard]] std::optional<std::filesystem::path> find_in_path(
    std::string_view command,
    std::string_view path,
    const std::filesystem::path& directory);

/// Whether a folder of PATH in `environment` has a program of that name for us.
[[nodiscard]] bool has_program(const Environment& environment, std::string_view name);

}  // namespace hvd::launch
