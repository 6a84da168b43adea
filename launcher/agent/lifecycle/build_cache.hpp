// SPDX-License-Identifier: Apache-2.0
//
// The folder in which the bootstrap keeps agents has one folder for each build. The newest stay.
#pragma once

#include <chrono>
#include <filesystem>
#include <string_view>

namespace hvd::launch::agent {

/// Builds that are kept at least, ours among them.
inline constexpr int kKeptBuilds = 4;

/// Nor is one removed that was used so lately: it may run on another host with this home, where the
/// file of a running program can vanish.
inline constexpr auto kUnusedFor = std::chrono::hours(48);

/// A running agent says so often that its build is in use.
inline constexpr auto kInUseEvery = std::chrono::hours(1);

/// Whether the bootstrap gives such names to the folders of builds:
/// "0.29.0+893d19-b27c77709a98fe3d".
[[nodiscard]] bool is_build_folder(std::string_view name) noexcept;

/// Where `program` lies if the bootstrap installed it: ".../horovodrun/BUILD". Else empty.
[[nodiscard]] std::filesystem::path build_folder(const std::filesystem::path& program);

/// Sets the time at which the build was used last. Where that fails, nobody can remove it either.
void mark_in_use(const std::filesystem::path& folder) noexcept;

/// Removes other builds of the same folder, as above. Only what the bootstrap itself creates is
/// removed, never through a link; whatever fails stays.
void remove_old_builds(const std::filesystem::path& folder) noexcept;

/// The build of this program, if the bootstrap installed it.
class OwnBuild final {
public:
    /// Finds it, and marks it as in use.
    void start();

    /// Removes other builds that are old.
    void remove_old() const noexcept { remove_old_builds(folder_); }

    /// Marks it again, now and then: as long as we run nobody else removes it.
    void is_in_use();

private:
    std::filesystem::path folder_;
    std::chrono::steady_clock::time_point marked_at_;
};

}  // namespace hvd::launch::agent
