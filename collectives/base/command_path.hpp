// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hvd {

/// The file that the first word of a command means.
struct CommandFile {
    std::string path;  // without a program the first file of that name, or empty
    int error = 0;     // ENOENT, or EACCES when files of that name exist but none may be executed

    [[nodiscard]] bool is_program() const noexcept { return error == 0; }

    friend bool operator==(const CommandFile&, const CommandFile&) = default;
};

/// Where the shell would find the program `name`, looked up from the folder `cwd`: a name with a
/// slash is a path; any other is searched in `path` (the value of PATH; unset means the system's
/// default), where an empty part is `cwd`. The path that it gives is seen from `cwd` too.
[[nodiscard]] CommandFile find_command(const std::string& name,
                                       const std::optional<std::string>& path,
                                       std::string_view cwd);

}  // namespace hvd
