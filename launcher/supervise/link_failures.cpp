// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/link_failures.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::size_t kMostNames = 8;
constexpr std::string_view kWordLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_";

/// "10.0.0.1", "fe80::1", with or without a port.
bool is_address(std::string_view word) {
    return word.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos &&
           (std::ranges::count(word, '.') >= 3 || std::ranges::count(word, ':') >= 2);
}

/// "17" of "17 s".
bool is_time(std::string_view word, std::string_view rest) {
    return word.find_first_not_of("0123456789.") == std::string_view::npos &&
           rest.starts_with(" s") &&
           (rest.size() == 2 || std::isalnum(static_cast<unsigned char>(rest[2])) == 0);
}

/// The message without the host's name, addresses and duration, so that equal failures compare
/// equal.
std::string pattern_of(const HostResult& failed) {
    std::string pattern;
    std::string_view rest = failed.error;
    while (!rest.empty()) {
        const auto length = std::min(rest.find_first_not_of(kWordLetters), rest.size());
        auto word = rest.substr(0, std::max<std::size_t>(length, 1));
        rest.remove_prefix(word.size());
        while (word.size() > 1 && (word.back() == ':' || word.back() == '.')) {
            word.remove_suffix(1);  // of the sentence
        }
        const bool is_host = word == failed.host || word.starts_with(failed.host + ".");
        pattern += is_host || is_address(word) || is_time(word, rest) ? "?" : word;
    }
    return pattern;
}

struct Group {
    std::string pattern;
    std::string words;  // about the first
    std::vector<std::string> hosts;
};

}  // namespace

std::string short_list(std::span<const std::string> names) {
    return join_first(names, kMostNames, "more hosts");
}

std::vector<std::string> tell_link_failures(const std::vector<HostResult>& failed,
                                            const std::vector<std::string>& missing) {
    std::vector<Group> groups;
    for (const auto& host : failed) {
        auto pattern = pattern_of(host);
        auto group = std::ranges::find(groups, pattern, &Group::pattern);
        if (group == groups.end()) {
            group = groups.insert(
                group, {.pattern = std::move(pattern), .words = host.error, .hosts = {}});
        }
        group->hosts.push_back(host.host);
    }
    std::vector<std::string> sentences;
    for (auto& group : groups) {
        const auto first = group.hosts.front();
        group.hosts.erase(group.hosts.begin());
        sentences.push_back(first + ": " + group.words +
                            (group.hosts.empty() ? "" : "; the same: " + join(group.hosts, ", ")));
    }
    if (!missing.empty()) {
        sentences.push_back("not waited for: " + short_list(missing));
    }
    return sentences;
}

}  // namespace hvd::launch
