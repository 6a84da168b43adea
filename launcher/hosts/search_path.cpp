// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/search_path.hpp"

#include "collectives/base/text.hpp"

#include <system_error>

#include <unistd.h>

namespace hvd::launch {

namespace fs = std::filesystem;

std::optional<fs::path> find_in_path(std::string_view command,
                                     std::string_view path,
                                     const fs::path& directory) {
    for (const auto part : split(path, ':')) {
        auto file = directory / part / command;  // an absolute part replaces `directory`
        std::error_code error;
        if (fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return std::nullopt;
}

bool has_program(const Environment& environment, std::string_view name) {
    return find_in_path(name, find(environment, "PATH").value_or(""), ".").has_value();
}

}  // namespace hvd::launch
