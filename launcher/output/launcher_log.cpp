// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/launcher_log.hpp"

#include "collectives/base/text.hpp"
#include "launcher/output/output_file.hpp"
#include "launcher/output/rank_printer.hpp"
#include "launcher/output/write_all.hpp"

#include <string>
#include <utility>

#include <fcntl.h>

namespace hvd::launch {

Result<std::unique_ptr<LauncherLog>> LauncherLog::create(const std::filesystem::path& folder) {
    auto path = folder / "launcher.log";
    HVD_TRY(auto fd, open_private_output_file(path, O_APPEND));
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
