// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "runtime/timeline/file_window.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::rt {

/// A JSON array in a file, complete whenever its writer is killed. `trace_file.cpp` says how.
class TraceFile {
public:
    /// Bytes of the longest element.
    static constexpr std::size_t kMostElement = 4091;

    /// Creates the file, or empties it. Errors: unavailable, with the path, also where the file is
    /// none that can be mapped.
    [[nodiscard]] static Result<TraceFile> create(const std::string& path);

    /// Appends elements, each on a line, with ",\n" between them. Errors: unavailable;
    /// invalid_argument for a line that is too long. The file has the elements before the error.
    [[nodiscard]] Status append(std::string_view elements);

    TraceFile(TraceFile&& other) noexcept;
    TraceFile& operator=(TraceFile&& other) noexcept;
    TraceFile(const TraceFile&) = delete;
    TraceFile& operator=(const TraceFile&) = delete;
    ~TraceFile();

private:
    struct Block;

    explicit TraceFile(UniqueFd fd);
    [[nodiscard]] std::size_t room() const noexcept;
    [[nodiscard]] Status add(std::string_view line);
    [[nodiscard]] Status flush();
    [[nodiscard]] Status next_block();
    void end_here(std::size_t size) noexcept;
    [[nodiscard]] Status write(std::size_t size, off_t at);

    UniqueFd fd_;
    FileWindow window_;
    std::unique_ptr<Block> block_;  // of text that is not written yet
    off_t end_ = 0;                 // of the last element in the file
};

}  // namespace hvd::rt
