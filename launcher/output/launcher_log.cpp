// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/launcher_log.hpp"

#include "collectives/base/text.hpp"
#include "launcher/output/rank_printer.hpp"
#include "launcher/output/write_all.hpp"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
    return {Errc::invalid_argument,
            "--output-filename: cannot write " + path.string() + ": " + why};
}

Error cannot_write(const std::filesystem::path& path, int error_number) {
    return cannot_write(path, std::generic_category().message(error_number));
}

}  // namespace

Result<std::unique_ptr<LauncherLog>> LauncherLog::create(const std::filesystem::path& folder) {
    auto path = folder / "launcher.log";
    // Opening a named pipe would wait for a reader who may never come.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    constexpr mode_t kMode = 0600;
    UniqueFd fd(::open(path.c_str(), kFlags, kMode));
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
    if (S_ISREG(found.st_mode)) {
        (void)::fchmod(fd.get(), kMode);  // an earlier job's; fails where it is another user's
        if (::ftruncate(fd.get(), 0) != 0) {
            return cannot_write(path, errno);
        }
    }
    (void)::fcntl(fd.get(), F_SETFL, O_APPEND);  // no longer O_NONBLOCK
    return std::unique_ptr<LauncherLog>(new LauncherLog(std::move(path), std::move(fd)));
}

Status LauncherLog::write(std::int64_t time_ns, std::string_view lines) {
    if (is_broken_ || lines.empty()) {
        return ok();
    }
    if (lines.ends_with('\n')) {
        lines.remove_suffix(1);
    }
    const auto stamp = format_utc(time_ns) + " ";
    std::string text;
    for (const auto line : split(lines, '\n')) {
        text += stamp;
        text += line;
        text += '\n';
    }
    const int error = write_all(fd_.get(), text);
    if (error != 0 && !is_broken_.exchange(true)) {
        return system_error("cannot write " + path_.string(), error);
    }
    return ok();
}

}  // namespace hvd::launch
