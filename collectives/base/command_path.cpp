// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/command_path.hpp"

#include "collectives/base/text.hpp"

#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

namespace hvd {
namespace {

constexpr std::string_view kDefaultPath = "/bin:/usr/bin";  // as execvp uses

std::string below(std::string_view folder, std::string_view name) {
    if (folder.empty() || name.starts_with('/')) {
        return std::string(name);
    }
    return std::string(folder) + "/" + std::string(name);
}

/// 0, or why the file cannot be a program.
int check_program(const std::string& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) {
        return errno;
    }
    return S_ISREG(status.st_mode) && ::access(file.c_str(), X_OK) == 0 ? 0 : EACCES;
}

/// Also as a symbolic link to nothing.
bool is_there(const std::string& file) {
    struct stat status {};
    return ::lstat(file.c_str(), &status) == 0;
}

}  // namespace

CommandFile find_command(const std::string& name,
                         const std::optional<std::string>& path,
                         std::string_view cwd) {
    if (name.empty()) {
        return {.path = {}, .error = ENOENT};
    }
    if (name.find('/') != std::string::npos) {
        return {.path = name, .error = check_program(below(cwd, name))};
    }
    CommandFile found{.path = {}, .error = ENOENT};
    const std::string folders = path.value_or(std::string(kDefaultPath));
    for (const auto folder : split(folders, ':')) {
        auto file = below(folder.empty() ? "." : folder, name);
        const int problem = check_program(below(cwd, file));
        if (problem == 0) {
            return {.path = std::move(file), .error = 0};
        }
        if (problem == EACCES) {
            found.error = EACCES;
        }
        if (found.path.empty() && is_there(below(cwd, file))) {
            found.path = std::move(file);
        }
    }
    return found;
}

}  // namespace hvd
