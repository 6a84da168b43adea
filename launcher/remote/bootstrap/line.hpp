// SPDX-License-Identifier: Apache-2.0
//
// The line that brings an agent to a host: it works in every login shell.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

// The two sides of the bootstrap talk in lines, until the agent's magic word.
inline constexpr std::string_view kBootstrapSend = "HVDBOOT1 send\n";    // give me the agent
inline constexpr std::string_view kBootstrapShell = "HVDBOOT1 shell\n";  // the first: it runs
inline constexpr std::string_view kBootstrapFail = "HVDBOOT1 fail ";     // and a sentence
inline constexpr std::string_view kBootstrapMark = "HVDBOOT1 ";

struct BootstrapLine {
    std::string build_id;   // what `hvd-agent --version` prints
    std::string cache_key;  // the name of the agent's folder: differs where the file differs
    std::size_t bytes = 0;  // the agent's size
    std::string machine;    // its `uname -m`

    // Places that all users share; there the folder carries the user's number.
    std::vector<std::string> shared_places{"/var/tmp", "/tmp", "/dev/shm"};

    // A command that starts another: {"apptainer", "exec", "img.sif"}. Empty: none. What the shell
    // replaces in plain words ("$HOME/img.sif") it does replace.
    std::vector<std::string> wrap{};
};

/// The line. It means the same to sh, bash, csh, tcsh, fish and zsh: words in single quotes,
/// without a quote, exclamation mark or line end inside, a backslash only before a-z, none
/// longer than csh takes.
[[nodiscard]] std::string to_command(const BootstrapLine& line);

/// A line that becomes the agent where the user's own cache has it, with no process but the login
/// shell's own, and else ends. Empty with a wrapper. It means the same to all those shells.
[[nodiscard]] std::string to_quick_command(const BootstrapLine& line);

}  // namespace hvd::launch
