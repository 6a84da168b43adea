// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/build_cache.hpp"

#include "collectives/base/unique_fd.hpp"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::string_view kProgram = "hvd-agent";
constexpr std::string_view kUpload = "new.";  // the bootstrap writes new.XXXXXX

struct Build {
    std::string name;
    std::time_t used_at = 0;
};

struct DirectoryCloser {
    void operator()(DIR* directory) const noexcept { (void)::closedir(directory); }
};

std::vector<std::string> names_in(int folder) {
    std::vector<std::string> names;
    UniqueFd own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, DirectoryCloser> directory(own ? ::fdopendir(own.get()) : nullptr);
    if (!directory) {
        return names;
    }
    (void)own.release();  // the stream closes it
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is our own
    while (const dirent* entry = ::readdir(directory.get())) {
        names.emplace_back(entry->d_name);
    }
    return names;
}

void remove_build(int builds, const std::string& name) {
    const UniqueFd folder(
        ::openat(builds, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder) {
        return;
    }
    for (const auto& file : names_in(folder.get())) {
        if (file == kProgram || file.starts_with(kUpload)) {
            (void)::unlinkat(folder.get(), file.c_str(), 0);
        }
    }
    (void)::unlinkat(builds, name.c_str(), AT_REMOVEDIR);  // fails if there is anything else
}

void remove_all_but_newest(int builds, const std::string& ours) {
    const auto limit = std::time(nullptr) - std::chrono::seconds(kUnusedFor).count();
    std::vector<Build> others;
    for (auto& name : names_in(builds)) {
        struct stat found {};
        if (name != ours && is_build_folder(name) &&
            ::fstatat(builds, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(found.st_mode) && found.st_uid == ::geteuid()) {
            others.push_back({.name = std::move(name), .used_at = found.st_mtime});
        }
    }
    std::ranges::sort(others, std::ranges::greater{}, &Build::used_at);
    for (std::size_t index = kKeptBuilds - 1; index < others.size(); ++index) {
        if (others[index].used_at < limit) {
            remove_build(builds, others[index].name);
        }
    }
}

}  // namespace

bool is_build_folder(std::string_view name) noexcept {
    constexpr std::size_t kHashDigits = 16;
    if (name.size() < kHashDigits + 2 || name[name.size() - kHashDigits - 1] != '-' ||
        std::isdigit(static_cast<unsigned char>(name.front())) == 0) {
        return false;
    }
    const auto is_hash = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    const auto is_plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' || c == '-';
    };
    return std::ranges::all_of(name.substr(name.size() - kHashDigits), is_hash) &&
           std::ranges::all_of(name, is_plain);
}

std::filesystem::path build_folder(const std::filesystem::path& program) {
    const auto folder = program.parent_path();
    const auto above = folder.parent_path().filename().string();
    const bool is_ours = program.filename() == kProgram &&
                         is_build_folder(folder.filename().string()) &&
                         (above == "horovodrun" || above.starts_with("horovodrun-"));
    return is_ours ? folder : std::filesystem::path();
}

void mark_in_use(const std::filesystem::path& folder) noexcept {
    if (!folder.empty()) {
        (void)::utimensat(AT_FDCWD, folder.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    }
}

void remove_old_builds(const std::filesystem::path& folder) noexcept {
    if (folder.empty()) {
        return;
    }
    const UniqueFd builds(
        ::open(folder.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (builds) {
        remove_all_but_newest(builds.get(), folder.filename().string());
    }
}

void OwnBuild::start() {
    std::error_code unknown;
    folder_ = build_folder(std::filesystem::read_symlink("/proc/self/exe", unknown));
    marked_at_ = std::chrono::steady_clock::now();
    mark_in_use(folder_);
}

void OwnBuild::is_in_use() {
    const auto now = std::chrono::steady_clock::now();
    if (now - marked_at_ >= kInUseEvery) {
        marked_at_ = now;
        mark_in_use(folder_);
    }
}

}  // namespace hvd::launch::agent
