// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/port_holder.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/remote/bootstrap/filter.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <vector>

namespace hvd::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTable = std::size_t{16} << 20;
constexpr std::size_t kMaxCommand = std::size_t{64} << 10;
constexpr std::size_t kShownCommand = 200;

std::string read_or_empty(const fs::path& path, std::size_t max_bytes) {
    auto text = read_file(path, max_bytes);
    return text ? std::move(text).value() : std::string();
}

std::vector<std::string_view> words_of(std::string_view line) {
    auto words = split(line, ' ');
    std::erase_if(words, [](std::string_view word) { return word.empty(); });
    return words;
}

/// "0100007F:1F90": the port is hexadecimal.
std::optional<int> port_of(std::string_view local) {
    constexpr int kBase = 16;
    const auto digits = local.substr(local.rfind(':') + 1);
    int port = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), port, kBase);
    return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(port)
                                                                        : std::nullopt;
}

std::string name_of(const std::string& user) {
    const auto database = read_or_empty("/etc/passwd", kMaxTable);
    for (const auto line : split(database, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() > 2 && fields[2] == user) {
            return std::string(fields[0]);
        }
    }
    return user;
}

/// Whether one of its descriptors is the socket. Of others' processes root alone may know.
bool holds(const fs::path& process, const fs::path& socket) {
    std::error_code error;
    for (fs::directory_iterator file(process / "fd", error), end; !error && file != end;
         file.increment(error)) {
        std::error_code gone;
        if (fs::read_symlink(file->path(), gone) == socket && !gone) {
            return true;
        }
    }
    return false;
}

std::string command_of(const fs::path& process) {
    auto words = read_or_empty(process / "cmdline", kMaxCommand);
    std::ranges::replace(words, '\0', ' ');
    return one_line(std::string_view(words).substr(0, kShownCommand), kShownCommand);
}

}  // namespace

std::optional<Listener> find_listener(std::string_view table, int port) {
    constexpr std::size_t kLocal = 1;
    constexpr std::size_t kState = 3;
    constexpr std::size_t kUser = 7;
    constexpr std::size_t kInode = 9;
    constexpr std::string_view kListens = "0A";
    for (const auto line : split(table, '\n')) {
        const auto words = words_of(line);
        if (words.size() > kInode && words[kState] == kListens && port_of(words[kLocal]) == port) {
            return Listener{.user = std::string(words[kUser]), .inode = std::string(words[kInode])};
        }
    }
    return std::nullopt;
}

std::string tell_port_holder(int port) {
    auto listener = find_listener(read_or_empty("/proc/net/tcp", kMaxTable), port);
    if (!listener) {
        listener = find_listener(read_or_empty("/proc/net/tcp6", kMaxTable), port);
    }
    if (!listener) {
        return {};
    }
    const auto user = name_of(listener->user);
    const fs::path socket = "socket:[" + listener->inode + "]";
    std::error_code error;
    for (fs::directory_iterator process("/proc", error), end; !error && process != end;
         process.increment(error)) {
        const auto pid = process->path().filename().string();
        if (parse_number<int>(pid) && holds(process->path(), socket)) {
            return join(std::vector<std::string>{"pid", pid, "of user", user,
                                                 "(" + command_of(process->path()) + ")"},
                        " ");
        }
    }
    return "a process of user " + user;
}

}  // namespace hvd::launch
