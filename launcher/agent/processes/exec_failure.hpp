// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace hvd::launch::agent {

/// Why a command cannot be executed on this host and what to write instead, in a sentence:
/// "'python' was not found in PATH; 'python3' is there, write that". `error_number` is that of
/// `find_command` or of execve, `path` and `cwd` are as `find_command` takes them.
[[nodiscard]] std::string explain_exec_failure(const std::string& command,
                                               int error_number,
                                               const std::optional<std::string>& path,
                                               const std::string& cwd);

}  // namespace hvd::launch::agent
