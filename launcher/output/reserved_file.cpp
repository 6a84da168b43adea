// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/reserved_file.hpp"

#include "launcher/output/write_all.hpp"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

Error cannot_write(const std::string& flag, const std::filesystem::path& path, int error_number) {
    auto error = system_error(flag + ": cannot write " + path.string(), error_number);
    error.code = Errc::invalid_argument;
    return error;
}

constexpr int kInPlace = O_WRONLY | O_APPEND | O_CLOEXEC;

/// Names of open files, such as /dev/stdout, and whatever is no file: renaming one over it would
/// replace it.
bool is_written_in_place(const std::filesystem::path& path) {
    const auto& text = path.native();
    struct stat existing {};
    return text.starts_with("/dev/") || text.starts_with("/proc/") ||
           (::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode));
}

}  // namespace

Result<ReservedFile> ReservedFile::reserve(std::filesystem::path path, std::string flag) {
    constexpr mode_t kMode = 0666;
    ReservedFile file(std::move(path), std::move(flag), kMode);
    if (is_written_in_place(file.path_)) {
        const UniqueFd fd(::open(file.path_.c_str(), kInPlace | O_NONBLOCK));
        if (!fd && errno != ENXIO) {  // a named pipe may get its reader only later
            return cannot_write(file.flag_, file.path_, errno);
        }
        return file;
    }
    std::error_code unknown;
    if (auto real = std::filesystem::weakly_canonical(file.path_, unknown); !unknown) {
        file.target_ = std::move(real);
    }
    HVD_TRY_STATUS(file.make_temporary());
    return file;
}

Result<ReservedFile> ReservedFile::reserve_private(std::filesystem::path path) {
    constexpr mode_t kMode = 0600;
    ReservedFile file(std::move(path), "--output-filename", kMode);
    HVD_TRY_STATUS(file.make_temporary());
    return file;
}

Status ReservedFile::make_temporary() {
    auto name = target_.string() + ".XXXXXX";
    const UniqueFd made(::mkostemp(name.data(), O_CLOEXEC));
    if (!made) {
        return cannot_write(flag_, path_, errno);
    }
    temporary_ = name;
    return ok();
}

ReservedFile::~ReservedFile() {
    if (!temporary_.empty()) {
        (void)::unlink(temporary_.c_str());
    }
}

Status ReservedFile::write(std::string_view text) {
    HVD_TRY_STATUS(append(text));
    return finish();
}

Status ReservedFile::append(std::string_view text) {
    if (!fd_) {
        fd_.reset(temporary_.empty() ? ::open(path_.c_str(), kInPlace)
                                     : ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC));
    }
    if (!fd_) {
        return cannot_write(flag_, path_, errno);
    }
    const int error = write_all(fd_.get(), text);
    return error == 0 ? ok() : Status(cannot_write(flag_, path_, error));
}

Status ReservedFile::finish() {
    const UniqueFd fd = std::move(fd_);
    if (temporary_.empty()) {
        return ok();
    }
    // mkostemp made it private; a summary that the user names is as public as other files.
    const auto mask = ::umask(0);
    (void)::umask(mask);
    (void)::fchmod(fd.get(), mode_ & ~mask);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
        return cannot_write(flag_, path_, errno);
    }
    temporary_.clear();
    return ok();
}

}  // namespace hvd::launch
