// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/supervise/job_result.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

namespace hvd::launch {

/// A file that a flag names, such as that of --summary. It appears whole or not at all; a job that
/// is killed leaves what was there before.
class SummaryFile final {
public:
    /// Makes a temporary file beside `path`, so that a place that cannot be written is known before
    /// the job starts. `flag` is named in errors, `mode` is what the umask leaves of it. Errors:
    /// invalid_argument.
    [[nodiscard]] static Result<SummaryFile> reserve(std::filesystem::path path,
                                                     std::string flag = "--summary",
                                                     mode_t mode = 0666);

    SummaryFile(SummaryFile&& other) noexcept
        : flag_(std::move(other.flag_)),
          mode_(other.mode_),
          path_(std::move(other.path_)),
          target_(std::move(other.target_)),
          temporary_(std::exchange(other.temporary_, {})),
          fd_(std::move(other.fd_)) {}
    SummaryFile& operator=(SummaryFile&&) = delete;
    SummaryFile(const SummaryFile&) = delete;
    SummaryFile& operator=(const SummaryFile&) = delete;
    ~SummaryFile();

    [[nodiscard]] Status write(const JobResult& result);
    [[nodiscard]] Status write_text(std::string_view text);

    /// The same in pieces. Without `finish` there is no file.
    [[nodiscard]] Status append(std::string_view text);
    [[nodiscard]] Status finish();

private:
    SummaryFile() = default;

    std::string flag_;
    mode_t mode_ = 0;
    std::filesystem::path path_;       // as the user wrote it
    std::filesystem::path target_;     // the same behind links
    std::filesystem::path temporary_;  // empty: written in place, such as a pipe
    UniqueFd fd_;                      // from the first piece on
};

}  // namespace hvd::launch
