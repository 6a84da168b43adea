// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/command.hpp"

#include "collectives/base/error.hpp"
#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/hosts/search_path.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <optional>

namespace hvd::launch {
namespace {

namespace fs = std::filesystem;

std::string in_quotes(std::string_view word) {
    return "'" + std::string(word) + "'";
}

/// "/usr/bin/env" of a file that begins with "#!/usr/bin/env python". As the kernel reads it, so a
/// CR that ends the line belongs to it.
std::optional<std::string> interpreter_of(const fs::path& file) {
    constexpr std::size_t kMaxScriptBytes = std::size_t{16} << 20;
    const auto text = read_file(file, kMaxScriptBytes);
    if (!text || !text->starts_with("#!")) {
        return std::nullopt;
    }
    constexpr std::string_view kBlank = " \t";
    auto line = split(*text, '\n').front().substr(2);
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    return std::string(line.substr(0, line.find_first_of(kBlank)));
}

/// Of a file that is there and yet could not be found.
std::string explain_missing_loader(const std::string& command, const fs::path& file) {
    const auto interpreter = interpreter_of(file);
    const auto text = in_quotes(command) + " is there, but ";
    if (!interpreter) {
        return text + "the loader it needs is not";
    }
    if (!interpreter->ends_with('\r')) {
        return text + "the program in its first line, " + in_quotes(*interpreter) + ", is not";
    }
    return text + "its lines end in CR LF, as on Windows, and no program is called " +
           in_quotes(interpreter->substr(0, interpreter->size() - 1) + "\\r") +
           "; write sed -i 's/\\r$//' " + quote_word(command);
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

std::string explain_not_in_path(std::string_view command,
                                const Environment& environment,
                                const fs::path& directory) {
    const auto path = find(environment, "PATH");
    if (!path) {
        return in_quotes(command) +
               " was not found, because PATH is not set for the ranks; pass it on with "
               "--env-pass PATH";
    }
    const auto text = in_quotes(command) + " was not found in PATH";
    if (command == "python" && find_in_path("python3", *path, directory)) {
        return text + "; 'python3' is there, write that";
    }
    std::error_code error;
    for (const auto part : split(*path, ':')) {
        const auto file = directory / part / command;
        if (fs::is_symlink(file, error) && !fs::exists(file, error)) {
            return text + ": " + file.string() + " is a symbolic link to " +
                   in_quotes(fs::read_symlink(file, error).string()) + ", which is not there";
        }
    }
    if (fs::exists(directory / command, error)) {
        return text + ", but it is in " + directory.string() + "; write ./" + std::string(command);
    }
    return text + " (" + *path + ")";
}

}  // namespace

std::string quote_word(const std::string& word) {
    const auto is_plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_-./=:,@%+").find(c) != std::string_view::npos;
    };
    if (!word.empty() && std::ranges::all_of(word, is_plain)) {
        return word;
    }
    std::string quoted = "'";
    for (const char c : word) {
        quoted += c == '\'' ? "'\\''" : std::string(1, c);
    }
    return quoted + "'";
}

std::string quote_words(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words) {
        text += (text.empty() ? "" : " ") + quote_word(word);
    }
    return text;
}

std::string quote_line(const Environment& variables, const std::vector<std::string>& words) {
    std::string text = variables.empty() ? "" : "env ";
    for (const auto& [name, value] : variables) {
        text += name + "=" + quote_word(value) + " ";
    }
    return text + quote_words(words);
}

std::string explain_missing_command(std::string_view command,
                                    int error_number,
                                    const Environment& environment,
                                    std::string_view directory) {
    const fs::path where(directory);
    const fs::path file = where / command;
    const bool has_slash = command.find('/') != std::string_view::npos;
    if (command.empty()) {
        return "the command is an empty word";
    }
    std::error_code error;
    const bool is_there = fs::exists(file, error);
    const auto shell_word = explain_shell_word(std::string(command));
    if (error_number == ENOENT && !is_there && shell_word) {
        return *shell_word;
    }
    if (error_number == ENOENT && !is_there && has_slash && fs::is_symlink(file, error)) {
        return in_quotes(command) + " is a symbolic link to " +
               in_quotes(fs::read_symlink(file, error).string()) + ", which is not there";
    }
    if (error_number == ENOENT && !has_slash) {
        return explain_not_in_path(command, environment, where);
    }
    if (error_number == ENOENT && is_there) {
        return explain_missing_loader(std::string(command), file);
    }
    if (error_number == EACCES && fs::is_directory(file, error)) {
        return in_quotes(command) + " is a directory";
    }
    if (error_number == EACCES && has_slash) {
        const bool is_python = command.ends_with(".py");
        return in_quotes(command) + " may not be executed; " +
               (is_python ? "write python3 " + std::string(command) + ", or " : "allow it with ") +
               "chmod +x " + std::string(command);
    }
    if (error_number == ENOEXEC) {
        return in_quotes(command) +
               " is no program that this machine can run; a script needs a first line such as "
               "#!/bin/sh";
    }
    return system_error(in_quotes(command), error_number).message;
}

}  // namespace hvd::launch
