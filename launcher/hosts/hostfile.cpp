// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/hostfile.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::string_view kBlank = " \t\r\v\f";
constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

/// Where in the file we are; makes the errors.
struct Place {
    std::string_view file;
    std::size_t line = 0;
    std::string_view text;  // the whole line

    /// `at` is a part of `text`.
    [[nodiscard]] Error error(std::string_view at, std::string_view why) const {
        const auto column = static_cast<std::size_t>(at.data() - text.data()) + 1;
        return {Errc::invalid_argument, std::string(file) + ":" + std::to_string(line) + ":" +
                                            std::to_string(column) + ": " + std::string(why)};
    }
};

/// Takes the next run of characters that are none of `ends`; blanks before it are skipped.
std::string_view take_word(std::string_view& rest, std::string_view ends) {
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
    const auto word = rest.substr(0, rest.find_first_of(ends));
    rest.remove_prefix(word.size());
    return word;
}

bool take_equals(std::string_view& rest) {
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
    if (!rest.starts_with('=')) {
        return false;
    }
    rest.remove_prefix(1);
    return true;
}

struct Limits {
    std::optional<int> slots;
    std::optional<int> max_slots;
};

/// Reads one "key = number" into `limits`.
Status take_setting(const Place& place, std::string_view& rest, Limits& limits) {
    const auto key = take_word(rest, "= \t\r\v\f");
    if (key.empty() || !take_equals(rest)) {
        return place.error(
            key, "'" + std::string(key) + "' is not understood after a host; write slots=N");
    }
    const auto value = take_word(rest, kBlank);
    const bool is_maximum = key == "max_slots" || key == "max-slots";
    if (key != "slots" && !is_maximum) {
        constexpr std::array<std::string_view, 2> kKeys{"slots", "max_slots"};
        const auto guess = nearest(key, kKeys);
        return place.error(key, "unknown key '" + std::string(key) + "'; " +
                                    (guess ? "did you mean " + std::string(*guess) + "?"
                                           : "a host has slots=N and max_slots=N"));
    }
    const auto number = parse_number<int>(value);
    if (!number || *number < 1 || *number > kMaxSlots) {
        return place.error(value.empty() ? key : value,
                           std::string(key) + "=" + std::string(value) + " must be from 1 to " +
                               std::to_string(kMaxSlots));
    }
    auto& limit = is_maximum ? limits.max_slots : limits.slots;
    if (limit) {
        return place.error(key, std::string(key) + " is written twice");
    }
    limit = number;
    return ok();
}

Result<Host> parse_line(const Place& place, std::string_view line) {
    auto rest = line;
    const auto word = take_word(rest, kBlank);
    auto host = parse_host(word);
    if (!host) {
        return place.error(word, host.error().message);
    }
    Limits limits{.slots = host->slots, .max_slots = std::nullopt};
    while (!trim(rest).empty()) {
        HVD_TRY_STATUS(take_setting(place, rest, limits));
    }
    if (limits.slots && limits.max_slots && *limits.slots > *limits.max_slots) {
        return place.error(word, "host '" + host->name + "' has " + std::to_string(*limits.slots) +
                                     " slots, but max_slots=" + std::to_string(*limits.max_slots));
    }
    host->slots = limits.slots ? limits.slots : limits.max_slots;
    return host;
}

}  // namespace

Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view file) {
    std::vector<Host> hosts;
    Place place{.file = file, .line = 0, .text = {}};
    for (const auto line : split(text, '\n')) {
        ++place.line;
        place.text = line;
        const auto content = line.substr(0, line.find('#'));
        if (trim(content).empty()) {
            continue;
        }
        HVD_TRY(auto host, parse_line(place, content));
        if (auto added = add_host(hosts, std::move(host)); !added) {
            return place.error(content, added.error().message);
        }
    }
    if (hosts.empty()) {
        return Error{Errc::invalid_argument, std::string(file) + ": there is no host in this file"};
    }
    return hosts;
}

Result<std::vector<Host>> read_hostfile(const std::filesystem::path& path) {
    HVD_TRY(const auto text, read_file(path, kMaxFileBytes));
    return parse_hostfile(text, path.string());
}

}  // namespace hvd::launch
