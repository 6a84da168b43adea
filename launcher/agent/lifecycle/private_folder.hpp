// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::launch::agent {

/// Whether `path` is a folder, no link to one, that is ours and nobody else may look into.
[[nodiscard]] bool is_private_folder(const char* path) noexcept;

}  // namespace hvd::launch::agent
