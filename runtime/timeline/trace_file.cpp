// SPDX-License-Identifier: Apache-2.0
#include "runtime/timeline/trace_file.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

constexpr mode_t kMode = 0644;
constexpr std::string_view kEnd = "\n]\n";

}  // namespace

Result<TraceFile> TraceFile::create(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
    if (!fd) {
        return system_error("timeline '" + path + "'", errno);
    }
    TraceFile file(std::move(fd));
    HVD_TRY_STATUS(file.write_at_end("["));
    file.end_ = 1;
    return file;
}

Status TraceFile::append(std::string_view elements) {
    const std::string text = (is_empty_ ? "\n" : ",\n") + std::string(elements);
    HVD_TRY_STATUS(write_at_end(text));
    end_ += static_cast<off_t>(text.size());
    is_empty_ = false;
    return ok();
}

/// Writes the text and the closing bracket.
Status TraceFile::write_at_end(std::string_view text) {
    const std::string all = std::string(text) + std::string(kEnd);
    std::string_view left = all;
    for (off_t at = end_; !left.empty();) {
        const auto written = ::pwrite(fd_.get(), left.data(), left.size(), at);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            auto error = system_error("timeline", errno);
            (void)::ftruncate(fd_.get(), end_);
            (void)::pwrite(fd_.get(), kEnd.data(), kEnd.size(), end_);
            return error;
        }
        left.remove_prefix(static_cast<std::size_t>(written));
        at += written;
    }
    return ok();
}

}  // namespace hvd::rt
