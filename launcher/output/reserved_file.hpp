// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

namespace hvd::launch {

/// A file that a flag names, such as that of --summary. It appears whole or not at all; a job that
/// is killed leaves what was there before.
class ReservedFile final {
public:
    /// Makes a temporary file beside `path`, so that a place that cannot be written is known before
    /// the job starts. A symbolic link stays, and the file behind it is replaced. `flag` is named
    /// in errors. Errors: invalid_argument.
    [[nodiscard]] static Result<ReservedFile> reserve(std::filesystem::path path,
                                                      std::string flag = "--summary");

    /// The same for a file of --output-filename, which is its owner's only. It takes the place of a
    /// symbolic link.
    [[nodiscard]] static Result<ReservedFile> reserve_private(std::filesystem::path path);

    ReservedFile(ReservedFile&& other) noexcept
        : flag_(std::move(other.flag_)),
          mode_(other.mode_),
          path_(std::move(other.path_)),
          target_(std::move(other.target_)),
          temporary_(std::exchange(other.temporary_, {})),
          fd_(std::move(other.fd_)) {}
    ReservedFile& operator=(ReservedFile&&) = delete;
    ReservedFile(const ReservedFile&) = delete;
    ReservedFile& operator=(const ReservedFile&) = delete;
    ~ReservedFile();

    [[nodiscard]] Status write(std::string_view text);

    /// The same in pieces. Without `finish` there is no file.
    [[nodiscard]] Status append(std::string_view text);
    [[nodiscard]] Status finish();

private:
    ReservedFile(std::filesystem::path path, std::string flag, mode_t mode)
        : flag_(std::move(flag)), mode_(mode), path_(std::move(path)), target_(path_) {}

    [[nodiscard]] Status make_temporary();

    std::string flag_;
    mode_t mode_ = 0;
    std::filesystem::path path_;       // as the user wrote it
    std::filesystem::path target_;     // what is replaced
    std::filesystem::path temporary_;  // empty: written in place, such as a pipe
    UniqueFd fd_;                      // from the first piece on
};

}  // namespace hvd::launch
