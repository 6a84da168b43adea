// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/hosts_file.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

namespace hvd::launch::ssh {
namespace {

constexpr std::size_t kMaxFile = std::size_t{16} << 20;

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

/// The words of a line before its comment.
std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view kBlanks = " \t\r";
    line = line.substr(0, line.find('#'));
    std::vector<std::string_view> words;
    while (true) {
        const auto begin = line.find_first_not_of(kBlanks);
        if (begin == std::string_view::npos) {
            return words;
        }
        line.remove_prefix(begin);
        words.push_back(line.substr(0, line.find_first_of(kBlanks)));
        line.remove_prefix(words.back().size());
    }
}

bool asks_files_first(std::string_view nsswitch) {
    for (const auto line : split(nsswitch, '\n')) {
        const auto words = words_of(line);
        if (!words.empty() && words.front() == "hosts:") {
            return words.size() > 1 && words[1] == "files";
        }
    }
    return false;
}

std::string read_or_nothing(const char* path) {
    auto text = read_file(path, kMaxFile);
    return text ? *std::move(text) : std::string();
}

}  // namespace

HostsFile::HostsFile(std::string_view nsswitch, std::string_view hosts) {
    if (!asks_files_first(nsswitch)) {
        return;
    }
    for (const auto line : split(hosts, '\n')) {
        const auto words = words_of(line);
        for (std::size_t index = 1; index < words.size(); ++index) {
            const auto [entry, is_new] = addresses_.emplace(lower(words[index]), words.front());
            if (!is_new && entry->second != words.front()) {
                entry->second.clear();
            }
        }
    }
}

std::optional<std::string> HostsFile::find(std::string_view name) const {
    const auto entry = addresses_.find(lower(name));
    if (entry == addresses_.end() || entry->second.empty()) {
        return std::nullopt;
    }
    return entry->second;
}

HostsFile read_hosts_file() {
    return {read_or_nothing("/etc/nsswitch.conf"), read_or_nothing("/etc/hosts")};
}

}  // namespace hvd::launch::ssh
