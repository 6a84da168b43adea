// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace hvd::test {

/// A private directory for one test, removed with everything in it.
class TempDir {
public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

    /// Writes a file and returns its path.
    [[nodiscard]] std::filesystem::path write(std::string_view name, std::string_view text) const;

    /// The whole file, or "" where there is none.
    [[nodiscard]] static std::string read(const std::filesystem::path& file);

private:
    std::filesystem::path path_;
};

}  // namespace hvd::test
