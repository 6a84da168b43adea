// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/host.hpp"
#include "launcher/remote/factory.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The name without the brackets of an IPv6 literal.
[[nodiscard]] std::string bare_name(const Host& host);

/// The program and its arguments that execute `line` on the host: the system's ssh, or what
/// --remote-shell names, which is given the host (with "user@" where it has one) and the line; one
/// that is called ssh also the port and the key.
[[nodiscard]] std::vector<std::string> remote_argv(const Host& host,
                                                   const SshTask& task,
                                                   std::string_view line);

/// A command as printed: of a long word, such as a line of sh, only the length.
[[nodiscard]] std::string show_command(const std::vector<std::string>& argv);

}  // namespace hvd::launch
