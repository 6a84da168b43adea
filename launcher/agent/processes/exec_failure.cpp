// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/exec_failure.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/base/error.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string_view>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kElsewhere = "; install it there, or write a path that every host has";

std::string in_quotes(std::string_view word) {
    return "'" + std::string(word) + "'";
}

bool is_searched(std::string_view command) {
    return command.find('/') == std::string_view::npos;
}

/// "/usr/bin/env" of a file that begins with "#!/usr/bin/env python". As the kernel reads it, so a
/// CR that ends the line belongs to it.
std::optional<std::string> interpreter_of(const fs::path& file) {
    constexpr std::size_t kLineBytes = 256;  // the kernel reads no more
    const UniqueFd script(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::array<char, kLineBytes> bytes{};
    const auto size = ::read(script.get(), bytes.data(), bytes.size());
    const std::string_view text(bytes.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
    if (!text.starts_with("#!")) {
        return std::nullopt;
    }
    constexpr std::string_view kBlank = " \t";
    auto line = split(text, '\n').front().substr(2);
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    return std::string(line.substr(0, line.find_first_of(kBlank)));
}

/// Of a file that is there and yet could not be found.
std::string explain_missing_loader(const std::string& name, const fs::path& file) {
    const auto interpreter = interpreter_of(file);
    const auto text = in_quotes(name) + " is there, but ";
    if (!interpreter) {
        return text + "the loader it needs is not";
    }
    if (!interpreter->ends_with('\r')) {
        return text + "the program in its first line, " + in_quotes(*interpreter) + ", is not";
    }
    return text + "its lines end in CR LF, as on Windows, and no program is called " +
           in_quotes(interpreter->substr(0, interpreter->size() - 1) + "\\r") +
           "; write sed -i 's/\\r$//' " + quote_word(name);
}

bool is_mounted_noexec(const fs::path& file) {
    struct statvfs about {};
    return ::statvfs(file.c_str(), &about) == 0 && (about.f_flag & ST_NOEXEC) != 0;
}

/// Of a file that is there and may not be executed.
std::string explain_denied(const std::string& name, const fs::path& file) {
    std::error_code error;
    if (fs::is_directory(file, error)) {
        return in_quotes(name) + " is a directory";
    }
    if (!fs::is_regular_file(file, error)) {
        return system_error(in_quotes(name), EACCES).message;
    }
    const std::string python =
        name.ends_with(".py") ? "write python3 " + quote_word(name) + ", or " : "";
    if (is_mounted_noexec(file)) {
        return in_quotes(name) + " is on a file system that is mounted with noexec; " + python +
               "copy it to another";
    }
    if (::access(file.c_str(), X_OK) == 0) {
        const auto interpreter = interpreter_of(file);
        return interpreter ? in_quotes(name) + " is there, but the program in its first line, " +
                                 in_quotes(*interpreter) + ", may not be executed"
                           : system_error(in_quotes(name), EACCES).message;
    }
    return in_quotes(name) + " may not be executed; " +
           (python.empty() ? "allow it with " : python) + "chmod +x " + quote_word(name);
}

/// The meaning that the word would have in a shell; nothing where it may be a program.
std::optional<std::string> explain_shell_word(const std::string& command) {
    const auto is_of_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    const auto text = "there is no program " + in_quotes(command) + "; ";
    const auto name = command.substr(0, command.find('='));
    if (!name.empty() && name != command && std::ranges::all_of(name, is_of_name)) {
        return text + "set a variable of the ranks with --env " + quote_word(command) +
               " before the command";
    }
    if (command.find(' ') == std::string::npos) {
        return std::nullopt;
    }
    return text + "leave the quotes out: " + command + ", or let a shell read the line: sh -c " +
           quote_word(command);
}

std::string explain_not_in_path(const std::string& command,
                                const std::optional<std::string>& path,
                                const fs::path& cwd) {
    if (!path) {
        return in_quotes(command) +
               " was not found, because PATH is not set for the ranks; pass it on with "
               "--env-pass PATH";
    }
    const auto text = in_quotes(command) + " was not found in PATH";
    if (command == "python" && find_command("python3", path, cwd.string()).is_program()) {
        return text + "; 'python3' is there, write that";
    }
    std::error_code error;
    if (fs::exists(cwd / command, error)) {
        return text + ", but it is in " + cwd.string() + "; write ./" + command;
    }
    return text + " (" + *path + ")" + std::string(kElsewhere);
}

std::string explain_missing(const std::string& command,
                            const std::optional<std::string>& path,
                            const fs::path& cwd) {
    if (const auto shell_word = explain_shell_word(command)) {
        return *shell_word;
    }
    return is_searched(command) ? explain_not_in_path(command, path, cwd)
                                : in_quotes(command) + " was not found" + std::string(kElsewhere);
}

}  // namespace

std::string explain_exec_failure(const std::string& command,
                                 int error_number,
                                 const std::optional<std::string>& path,
                                 const std::string& cwd) {
    if (command.empty()) {
        return "the command is an empty word";
    }
    const auto found = find_command(command, path, cwd).path;
    const auto file = fs::path(cwd) / found;
    const auto name = is_searched(command) && !found.empty() ? file.string() : command;
    std::error_code error;
    const bool is_there = !found.empty() && fs::exists(file, error);
    if (error_number == ENOENT && is_there) {
        return explain_missing_loader(name, file);
    }
    if (error_number == ENOENT && !found.empty() && fs::is_symlink(file, error)) {
        return in_quotes(name) + " is a symbolic link to " +
               in_quotes(fs::read_symlink(file, error).string()) + ", which is not there";
    }
    if (error_number == ENOENT) {
        return explain_missing(command, path, cwd);
    }
    if (error_number == EACCES && is_there) {
        return explain_denied(name, file);
    }
    if (error_number == ENOEXEC) {
        return in_quotes(name) +
               " is no program that this machine can run; a script needs a first line such as "
               "#!/bin/sh";
    }
    return system_error(in_quotes(name), error_number).message;
}

}  // namespace hvd::launch::agent
