// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace hvd::launch::agent {

/// Where the shell would find the program `name`, looked up from the folder `cwd`: a name with a
/// slash is a path; any other is searched in `path` (the value of PATH; unset means the system's
/// default), where an empty part is `cwd`. The errno is ENOENT, or EACCES when files of that name
/// exist but none may be executed.
[[nodiscard]] std::variant<std::string, int> find_command(const std::string& name,
                                                          const std::optional<std::string>& path,
                                                          std::string_view cwd);

}  // namespace hvd::launch::agent
