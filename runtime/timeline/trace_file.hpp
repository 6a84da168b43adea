// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::rt {

/// A JSON array in a file, which is complete after each `append`, so that it can be read at any
/// moment, also after the process was killed: one write replaces the closing bracket by what comes
/// and the next bracket.
class TraceFile {
public:
    /// Creates the file, or empties it. Errors: unavailable, with the path.
    [[nodiscard]] static Result<TraceFile> create(const std::string& path);

    /// Appends elements that have commas between them. Errors: unavailable; the file ends with what
    /// came before.
    [[nodiscard]] Status append(std::string_view elements);

private:
    explicit TraceFile(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
    [[nodiscard]] Status write_at_end(std::string_view text);

    UniqueFd fd_;
    off_t end_ = 0;  // of the last element
    bool is_empty_ = true;
};

}  // namespace hvd::rt
