// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/output_file.hpp"

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::string_view kIsLink = "it is a symbolic link; remove it";

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
    return {Errc::invalid_argument,
            "--output-filename: cannot write " + path.string() + ": " + why};
}

}  // namespace

Error cannot_write(const std::filesystem::path& path, int error_number) {
    return cannot_write(path, std::generic_category().message(error_number));
}

Result<UniqueFd> open_output_file(const std::filesystem::path& path,
                                  int flags,
                                  mode_t mode,
                                  std::optional<int> folder) {
    // Opening a named pipe would wait for a reader that may never come.
    constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    const int where = folder.value_or(AT_FDCWD);
    const auto name = folder ? path.filename() : path;
    UniqueFd fd(::openat(where, name.c_str(), kFlags | O_CREAT | O_NOFOLLOW | flags, mode));
    const bool is_link = !fd && errno == ELOOP;
    if (is_link) {
        fd.reset(::openat(where, name.c_str(), kFlags | flags));
    }
    if (!fd && errno != ENXIO && !is_link) {
        return cannot_write(path, errno);
    }
    struct stat found {};
    if (fd && ::fstat(fd.get(), &found) != 0) {
        return cannot_write(path, errno);
    }
    if (is_link && !S_ISCHR(found.st_mode)) {
        return cannot_write(path, std::string(kIsLink));
    }
    if (!S_ISREG(found.st_mode) && !S_ISCHR(found.st_mode)) {
        return cannot_write(path, "it is no regular file; remove it");
    }
    if (S_ISREG(found.st_mode) && ::ftruncate(fd.get(), 0) != 0) {
        return cannot_write(path, errno);
    }
    (void)::fcntl(fd.get(), F_SETFL, flags);  // no longer O_NONBLOCK
    return fd;
}

Result<UniqueFd> open_output_folder(const std::filesystem::path& path) {
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    if (failure) {
        return cannot_write(path, failure.value());
    }
    UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) {
        const int error = errno;
        return error == ENOTDIR ? cannot_write(path, std::string(kIsLink))
                                : cannot_write(path, error);
    }
    return fd;
}

Result<UniqueFd> open_private_output_file(const std::filesystem::path& path, int flags) {
    constexpr mode_t kMode = 0600;
    HVD_TRY(auto fd, open_output_file(path, flags, kMode));
    struct stat found {};
    if (::fstat(fd.get(), &found) == 0 && S_ISREG(found.st_mode)) {
        (void)::fchmod(fd.get(), kMode);  // an earlier job's
    }
    return fd;
}

}  // namespace hvd::launch
