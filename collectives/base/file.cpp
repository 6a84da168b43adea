// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/file.hpp"

#include "collectives/base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd {

Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes) {
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
        return system_error(path.string(), errno);
    }
    std::string text;
    // A file that grows is copied, and its pages are touched, once for each doubling. What says no
    // size (/proc, pipes) is small.
    struct stat facts {};
    if (::fstat(file.get(), &facts) == 0 && facts.st_size > 0) {
        text.reserve(std::min(static_cast<std::size_t>(facts.st_size), max_bytes));
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read() fills what is used of it
    std::array<char, 65'536> chunk;
    while (true) {
        const auto got = read(file.get(), chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return system_error(path.string(), errno);
        }
        if (got == 0) {
            return text;
        }
        text.append(chunk.data(), static_cast<std::size_t>(got));
        if (text.size() > max_bytes) {
            return Error{Errc::invalid_argument, path.string() + ": the file is longer than " +
                                                     std::to_string(max_bytes) + " bytes"};
        }
    }
}

}  // namespace hvd
