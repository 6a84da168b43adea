// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace hvd {

/// The whole file. Errors: unavailable with path and cause; invalid_argument when it is longer than
/// `max_bytes`.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            std::size_t max_bytes);

}  // namespace hvd
