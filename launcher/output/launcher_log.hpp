// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

namespace hvd::launch {

/// DIR/launcher.log: what horovodrun itself says, each line after the time at which it did.
/// Thread: any.
class LauncherLog final {
public:
    /// Makes and empties it, for its owner only. Errors: invalid_argument, also for what is neither
    /// a file nor a device.
    [[nodiscard]] static Result<std::unique_ptr<LauncherLog>> create(
        const std::filesystem::path& folder);

    /// Whole lines, said so many nanoseconds after 1970 (UTC). Errors: internal, once; nothing more
    /// is written then.
    [[nodiscard]] Status write(std::int64_t time_ns, std::string_view lines);

private:
    LauncherLog(std::filesystem::path path, UniqueFd fd)
        : path_(std::move(path)), fd_(std::move(fd)) {}

    std::filesystem::path path_;
    UniqueFd fd_;
    std::atomic<bool> is_broken_{false};
};

}  // namespace hvd::launch
