// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/port_holder.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
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

using Holders = std::map<std::uint16_t, PortHolder>;

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

/// An IPv4 address that is written as an IPv6 one ("::ffff:10.0.0.1") is an IPv4 address.
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

/// "0100007F" or four such words, each in the machine's own byte order.
std::optional<IpAddress> parse_address(std::string_view text) {
    constexpr std::size_t kDigits = 8;  // of a word
    if (text.size() != kDigits && text.size() != 4 * kDigits) {
        return std::nullopt;
    }
    IpAddress address{.is_v6 = text.size() != kDigits};
    for (std::size_t at = 0; at < text.size(); at += kDigits) {
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

/// Which of the sockets its descriptors are. Of others' processes root alone may know.
std::vector<std::string> find_sockets(const fs::path& process, const Holders& holders) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator file(process / "fd", error), end; !error && file != end;
         file.increment(error)) {
        std::error_code gone;
        const auto target = fs::read_symlink(file->path(), gone).string();
        for (const auto& [port, holder] : holders) {
            if (!gone && target == "socket:[" + holder.inode + "]") {
                found.push_back(holder.inode);
            }
        }
    }
    return found;
}

std::string describe(const fs::path& process, const std::string& user) {
    auto words = read_or_empty(process / "cmdline", kMaxCommand);
    std::ranges::replace(words, '\0', ' ');
    const auto command = std::string_view(words).substr(0, kShownCommand);
    return "pid " + process.filename().string() + " of user " + user + " (" +
           one_line(command, kShownCommand) + ")";
}

/// By port, in words.
std::map<std::uint16_t, std::string> tell(const Holders& holders) {
    std::map<std::string, std::string> processes;  // by inode
    std::error_code error;
    for (fs::directory_iterator process("/proc", error), end;
         !error && process != end && processes.size() < holders.size(); process.increment(error)) {
        if (parse_number<int>(process->path().filename().string())) {
            for (const auto& inode : find_sockets(process->path(), holders)) {
                processes.emplace(inode, process->path().string());
            }
        }
    }
    std::map<std::uint16_t, std::string> told;
    for (const auto& [port, holder] : holders) {
        const auto user = name_of(holder.user);
        const auto process = processes.find(holder.inode);
        told[port] = process == processes.end() ? "a process of user " + user
                                                : describe(process->second, user);
    }
    return told;
}

std::string read_tables() {
    return read_or_empty("/proc/net/tcp", kMaxTable) + read_or_empty("/proc/net/tcp6", kMaxTable);
}

}  // namespace

std::map<std::uint16_t, PortHolder> find_port_holders(std::string_view table,
                                                      const IpAddress& at,
                                                      const PortRange& ports) {
    constexpr std::size_t kLocal = 1;
    constexpr std::size_t kState = 3;
    constexpr std::size_t kUser = 7;
    constexpr std::size_t kInode = 9;
    constexpr std::string_view kListens = "0A";
    constexpr std::string_view kNobodys = "0";  // the inode of a connection that is over
    constexpr int kFurther = 3;                 // than any that listens
    const auto wanted = plain(at);
    Holders nearest;
    std::map<std::uint16_t, int> distances;
    for (const auto line : split(table, '\n')) {
        const auto words = words_of(line);
        if (words.size() <= kInode || words[kInode] == kNobodys) {
            continue;
        }
        const auto colon = std::min(words[kLocal].find(':'), words[kLocal].size() - 1);
        const auto port = parse_hex(words[kLocal].substr(colon + 1)).value_or(0);
        if (port < ports.first || port > ports.last) {
            continue;
        }
        const auto held = parse_address(words[kLocal].substr(0, colon));
        auto far = held ? distance(*held, wanted) : std::nullopt;
        if (!far) {
            continue;
        }
        *far += words[kState] == kListens ? 0 : kFurther;
        const auto key = static_cast<std::uint16_t>(port);
        const auto [known, is_new] = distances.emplace(key, *far);
        if (is_new || *far < known->second) {
            known->second = *far;
            nearest[key] = {.user = std::string(words[kUser]), .inode = std::string(words[kInode])};
        }
    }
    return nearest;
}

std::string tell_port_holder(const IpAddress& at, std::uint16_t port) {
    const auto told = tell(find_port_holders(read_tables(), at, {port, port}));
    return told.empty() ? "" : told.begin()->second;
}

std::string tell_port_holders(const IpAddress& at, const PortRange& ports) {
    constexpr std::size_t kMostTold = 3;
    auto holders = find_port_holders(read_tables(), at, ports);
    const auto more = holders.size() - std::min(holders.size(), kMostTold);
    holders.erase(std::next(holders.begin(), static_cast<std::ptrdiff_t>(holders.size() - more)),
                  holders.end());
    std::vector<std::string> parts;
    for (const auto& [port, words] : tell(holders)) {
        parts.push_back(std::to_string(port) + " by " + words);
    }
    if (parts.empty()) {
        return {};
    }
    const auto rest = more == 0 ? "" : " and " + std::to_string(more) + " more";
    return "; taken: " + join(parts, ", ") + rest;
}

}  // namespace hvd::coll::net
