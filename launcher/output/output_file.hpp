// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <filesystem>
#include <optional>

#include <sys/types.h>

namespace hvd::launch {

/// Opens a file of --output-filename for writing, with `flags` besides, and empties it. Does not
/// wait for a reader, and follows no symbolic link but to a device such as /dev/null: somebody else
/// may have put it there. Where `folder` is given, it is the open folder of the file. Errors:
/// invalid_argument, also for what is neither a file nor a device.
[[nodiscard]] Result<UniqueFd> open_output_file(const std::filesystem::path& path,
                                                int flags,
                                                mode_t mode,
                                                std::optional<int> folder = std::nullopt);

/// Makes a folder below --output-filename and opens it. Errors: invalid_argument, also for a
/// symbolic link.
[[nodiscard]] Result<UniqueFd> open_output_folder(const std::filesystem::path& path);

/// The same as open_output_file, for its owner's eyes only. One that is another user's keeps its
/// mode.
[[nodiscard]] Result<UniqueFd> open_private_output_file(const std::filesystem::path& path,
                                                        int flags);

/// Errc::invalid_argument.
[[nodiscard]] Error cannot_write(const std::filesystem::path& path, int error_number);

}  // namespace hvd::launch
