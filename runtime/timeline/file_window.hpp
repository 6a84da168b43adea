// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <array>
#include <cstddef>

#include <sys/types.h>

namespace hvd::rt {

/// A part of a file in memory, for stores that a killed process has made whole or not at all.
class FileWindow {
public:
    FileWindow() noexcept = default;
    FileWindow(FileWindow&& other) noexcept;
    FileWindow& operator=(FileWindow&& other) noexcept;
    FileWindow(const FileWindow&) = delete;
    FileWindow& operator=(const FileWindow&) = delete;
    ~FileWindow();

    /// Replaces the two bytes at `at`, which the file has, by one instruction. They may be in two
    /// pages. `fd` is the same in each call. Errors: unavailable where the file cannot be mapped.
    [[nodiscard]] Status store(int fd, off_t at, std::array<char, 2> bytes);

private:
    [[nodiscard]] Status move_to(int fd, off_t at);
    void unmap() noexcept;

    char* base_ = nullptr;
    std::size_t size_ = 0;
    off_t start_ = 0;  // in the file
};

}  // namespace hvd::rt
