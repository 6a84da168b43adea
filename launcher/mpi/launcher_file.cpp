// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/launcher_file.hpp"

#include "collectives/base/unique_fd.hpp"
#include "launcher/output/write_all.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {

Result<std::unique_ptr<LauncherFile>> LauncherFile::write(const LaunchPlan& plan) {
    if (!plan.launcher_file) {
        return std::unique_ptr<LauncherFile>();
    }
    const auto& path = plan.launcher_file->path;
    const auto refuse = [&](int error) {
        return Error{Errc::unavailable, system_error(path, error).message +
                                            "; name a folder for temporary files in TMPDIR"};
    };
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               S_IRUSR | S_IWUSR));
    if (!file) {
        return refuse(errno);
    }
    auto written = std::make_unique<LauncherFile>(path);
    if (const int error = write_all(file.get(), plan.launcher_file->text); error != 0) {
        return refuse(error);
    }
    return written;
}

LauncherFile::~LauncherFile() {
    (void)::unlink(path_.c_str());
}

}  // namespace hvd::launch
