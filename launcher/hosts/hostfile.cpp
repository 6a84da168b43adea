// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/hostfile.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/hosts/host_spec.hpp"

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
                                            std::to_string(column) + ": " + escape_controls(why)};
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

struct Settings {
    std::optional<int> slots;
    std::optional<int> max_slots;
    std::optional<int> port;
};

/// Reads one "key = number" into `settings`.
Status take_setting(const Place& place, std::string_view& rest, Settings& settings) {
    const auto key = take_word(rest, "= \t\r\v\f");
    if (key.empty() || !take_equals(rest)) {
        return place.error(
            key, "'" + std::string(key) + "' is not understood after a host; write slots=N");
    }
    const auto value = take_word(rest, kBlank);
    struct Key {
        std::string_view name;
        std::optional<int>& field;
        int most;
    };
    constexpr int kMaxPort = 65'535;
    const std::array keys{
        Key{"slots", settings.slots, kMaxSlots}, Key{"max_slots", settings.max_slots, kMaxSlots},
        Key{"max-slots", settings.max_slots, kMaxSlots}, Key{"port", settings.port, kMaxPort}};
    const auto known = std::ranges::find(keys, key, &Key::name);
    if (known == keys.end()) {
        constexpr std::array<std::string_view, 3> kNames{"slots", "max_slots", "port"};
        const auto guess = nearest(key, kNames);
        return place.error(key, "unknown key '" + std::string(key) + "'; " +
                                    (guess ? "did you mean " + std::string(*guess) + "?"
                                           : "a host has slots=N, max_slots=N and port=N"));
    }
    const auto number = parse_number<int>(value);
    if (!number || *number < 1 || *number > known->most) {
        return place.error(value.empty() ? key : value,
                           std::string(key) + "=" + std::string(value) + " must be from 1 to " +
                               std::to_string(known->most));
    }
    if (known->field) {
        return place.error(key, std::string(key) + " is written twice");
    }
    known->field = number;
    return ok();
}

Result<std::vector<Host>> parse_line(const Place& place, std::string_view line) {
    auto rest = line;
    const auto word = take_word(rest, kBlank);
    auto hosts = parse_item(word);
    if (!hosts) {
        return place.error(word, hosts.error().message);
    }
    const auto& first = hosts->front();
    Settings settings{.slots = first.slots, .max_slots = std::nullopt, .port = first.port};
    while (!trim(rest).empty()) {
        HVD_TRY_STATUS(take_setting(place, rest, settings));
    }
    if (settings.slots && settings.max_slots && *settings.slots > *settings.max_slots) {
        return place.error(word,
                           "host '" + first.name + "' has " + std::to_string(*settings.slots) +
                               " slots, but max_slots=" + std::to_string(*settings.max_slots));
    }
    for (auto& host : *hosts) {
        host.slots = settings.slots ? settings.slots : settings.max_slots;
        host.port = settings.port;
    }
    return hosts;
}

/// A line "^name".
struct Exclusion {
    Place place;
    std::string_view item;
    std::vector<std::string> names;
};

Result<Exclusion> parse_exclusion(const Place& place, std::string_view content) {
    const auto item = trim(content);
    auto names = parse_excluded(item);
    if (!names) {
        return place.error(item, names.error().message);
    }
    return Exclusion{.place = place, .item = item, .names = std::move(names).value()};
}

Status add_line(const Place& place, std::string_view content, UniqueHosts& hosts) {
    HVD_TRY(auto parsed, parse_line(place, content));
    auto added = hosts.add(std::move(parsed));
    return added ? ok() : place.error(content, added.error().message);
}

/// One that names hosts to leave out, or hosts to take.
Status take_line(const Place& place,
                 std::string_view content,
                 UniqueHosts& hosts,
                 std::vector<Exclusion>& exclusions) {
    if (trim(content).front() != '^') {
        return add_line(place, content, hosts);
    }
    HVD_TRY(auto exclusion, parse_exclusion(place, content));
    exclusions.push_back(std::move(exclusion));
    return ok();
}

}  // namespace

Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view file) {
    UniqueHosts written;
    std::vector<Exclusion> exclusions;  // from hosts before and after them
    Place place{.file = file, .line = 0, .text = {}};
    for (const auto line : split(text, '\n')) {
        ++place.line;
        place.text = line;
        const auto content = line.substr(0, line.find('#'));
        if (trim(content).empty()) {
            continue;
        }
        HVD_TRY_STATUS(take_line(place, content, written, exclusions));
    }
    auto hosts = written.take();
    for (const auto& exclusion : exclusions) {
        if (const auto excluded = exclude_hosts(hosts, exclusion.names); !excluded) {
            return exclusion.place.error(exclusion.item, excluded.error().message);
        }
    }
    if (hosts.empty()) {
        return Error{Errc::invalid_argument, std::string(file) + ": there is no host in this file"};
    }
    return hosts;
}

Result<std::vector<Host>> read_hostfile(const std::filesystem::path& path) {
    const bool is_standard_input = path == "-";
    HVD_TRY(const auto text, read_file(is_standard_input ? "/dev/stdin" : path, kMaxFileBytes));
    return parse_hostfile(text, is_standard_input ? "standard input" : path.string());
}

}  // namespace hvd::launch
