// SPDX-License-Identifier: Apache-2.0
#include "collectives/net/port_holder.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace hvd::coll::net {
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

std::optional<std::uint32_t> parse_hex(std::string_view digits) {
    constexpr int kBase = 16;
    std::uint32_t number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, kBase);
    return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(number)
                                                                        : std::nullopt;
}

/// An IPv4 address that is written as an IPv6 one ("::ffff:10.0.0.1") is what it stands for.
IpAddress plain(const IpAddress& address) {
    constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (!address.is_v6 || !std::ranges::equal(kMapped, std::span(address.bytes).first<12>())) {
        return address;
    }
    IpAddress four;
    std::ranges::copy(std::span(address.bytes).last<4>(), four.bytes.begin());
    return four;
}

bool is_any(const IpAddress& address) {
    return std::ranges::all_of(address.bytes, [](std::uint8_t byte) { return byte == 0; });
}

/// "0100007F:1F90", where the address is in words of the machine's own byte order. Nothing for
/// other ports.
std::optional<IpAddress> address_with_port(std::string_view text, std::uint16_t port) {
    constexpr std::size_t kDigits = 8;  // of a word
    const auto colon = text.find(':');
    if ((colon != kDigits && colon != 4 * kDigits) || parse_hex(text.substr(colon + 1)) != port) {
        return std::nullopt;
    }
    IpAddress address{.is_v6 = colon != kDigits};
    for (std::size_t at = 0; at < colon; at += kDigits) {
        const auto word = parse_hex(text.substr(at, kDigits));
        if (!word) {
            return std::nullopt;
        }
        std::memcpy(address.bytes.data() + at / 2, &*word, sizeof *word);
    }
    return plain(address);
}

/// How surely a socket there keeps others from `wanted`: 0 at most. Nothing: it does not.
std::optional<int> distance(const IpAddress& held, const IpAddress& wanted) {
    if (held == wanted) {
        return 0;
    }
    const bool same_kind = held.is_v6 == wanted.is_v6;
    // One at all IPv6 addresses has those of IPv4 too, unless it declined them.
    if (is_any(held) && (same_kind || held.is_v6)) {
        return same_kind ? 1 : 2;
    }
    if (is_any(wanted) && (same_kind || wanted.is_v6)) {
        return same_kind ? 1 : 2;
    }
    return std::nullopt;
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

std::optional<PortHolder> find_port_holder(std::string_view table,
                                           const IpAddress& at,
                                           std::uint16_t port) {
    constexpr std::size_t kLocal = 1;
    constexpr std::size_t kState = 3;
    constexpr std::size_t kUser = 7;
    constexpr std::size_t kInode = 9;
    constexpr std::string_view kListens = "0A";
    constexpr std::string_view kNobodys = "0";  // the inode of a connection that is over
    constexpr int kFurther = 3;                 // than any that listens
    const auto wanted = plain(at);
    std::optional<PortHolder> nearest;
    int shortest = 0;
    for (const auto line : split(table, '\n')) {
        const auto words = words_of(line);
        if (words.size() <= kInode || words[kInode] == kNobodys) {
            continue;
        }
        const auto held = address_with_port(words[kLocal], port);
        auto far = held ? distance(*held, wanted) : std::nullopt;
        if (!far) {
            continue;
        }
        *far += words[kState] == kListens ? 0 : kFurther;
        if (!nearest || *far < shortest) {
            nearest = {.user = std::string(words[kUser]), .inode = std::string(words[kInode])};
            shortest = *far;
        }
    }
    return nearest;
}

std::string tell_port_holder(const IpAddress& at, std::uint16_t port) {
    const auto table =
        read_or_empty("/proc/net/tcp", kMaxTable) + read_or_empty("/proc/net/tcp6", kMaxTable);
    const auto holder = find_port_holder(table, at, port);
    if (!holder) {
        return {};
    }
    const auto user = name_of(holder->user);
    const fs::path socket = "socket:[" + holder->inode + "]";
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

}  // namespace hvd::coll::net
