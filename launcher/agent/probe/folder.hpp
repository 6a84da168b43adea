// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace hvd::launch::agent {

/// The entries of a folder, in the order of the names; nothing where it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

}  // namespace hvd::launch::agent
