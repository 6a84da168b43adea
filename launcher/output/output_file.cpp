// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/output_file.hpp"

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
    return {Errc::invalid_argument,
            "--output-filename: cannot write " + path.string() + ": " + why};
}

}  // namespace

Error cannot_write(const std::filesystem::path& path, int error_number) {
    return cannot_write(path, std::generic_category().message(error_number));
}

Result<UniqueFd> open_output_file(const std::filesystem::path& path, int flags, mode_t mode) {
    // Opening a named pipe would wait for a reader who may never come.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    UniqueFd fd(::open(path.c_str(), kFlags | flags, mode));
    if (!fd && errno != ENXIO) {
        return cannot_write(path, errno);
    }
    struct stat found {};
    if (fd && ::fstat(fd.get(), &found) != 0) {
        return cannot_write(path, errno);
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
