// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/settings.hpp"

#include "collectives/base/text.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

namespace hvd::launch {
namespace {

using enum Kind;

constexpr double kBytesPerMegabyte = 1'048'576;
constexpr std::string_view kAutotune = "HOROVOD_AUTOTUNE";
constexpr std::string_view kTimelineFile = "HOROVOD_TIMELINE";
constexpr std::string_view kTimelineAll = "HOROVOD_TIMELINE_ALL";

bool is_switch(const Flag& setting) noexcept {
    return setting.setting.kind == on || setting.setting.kind == off;
}

Error out_of_range(std::string_view text, const std::string& range) {
    return wrong("'" + std::string(text) + "' must be " + range);
}

std::string up_to(const Flag& setting) {
    return " from 0 to " + std::to_string(static_cast<std::int64_t>(setting.setting.high));
}

bool is_inside(const Flag& setting, double value) noexcept {
    return value >= 0 && value <= setting.setting.high;  // false for "nan" too
}

Result<std::string> export_real(const Flag& setting, std::string_view text) {
    const auto value = parse_number<double>(text);
    if (!value || !is_inside(setting, *value)) {
        return out_of_range(text, "a number" + up_to(setting));
    }
    if (setting.setting.kind == megabytes) {
        return std::to_string(static_cast<std::int64_t>(*value * kBytesPerMegabyte));
    }
    return std::string(text);
}

Result<std::string> export_log_level(std::string_view text) {
    constexpr std::array<std::string_view, 6> kLevels{"TRACE",   "DEBUG", "INFO",
                                                      "WARNING", "ERROR", "FATAL"};
    std::string upper(text);
    std::ranges::transform(upper, upper.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (std::ranges::find(kLevels, upper) == kLevels.end()) {
        return out_of_range(text, "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL");
    }
    return upper;
}

Result<std::string> export_cpus(std::string_view text) {
    for (const auto part : split(text, ',')) {
        if (!parse_number<std::uint16_t>(part)) {
            return out_of_range(text, "CPU numbers with commas between them, such as 0,4,8");
        }
    }
    return std::string(text);
}

Result<std::string> export_choice(const Flag& setting, std::string_view text) {
    const auto choices = split(setting.value, '|');
    if (std::ranges::find(choices, text) == choices.end()) {
        const std::vector<std::string> words(choices.begin(), choices.end());
        return out_of_range(text, join(words, " or "));
    }
    return std::string(text);
}

/// The settings of which one must be on for `variable` to be of use, if there are any.
std::vector<std::string_view> needed_by(std::string_view variable) {
    if (variable.starts_with(kAutotune) && variable != kAutotune) {
        return {kAutotune};
    }
    if (variable.starts_with(kTimelineFile) && variable != kTimelineFile &&
        variable != kTimelineAll) {
        return {kTimelineFile, kTimelineAll};
    }
    return {};
}

/// Whether a flag, the config file or, where neither says anything, the environment has it on.
bool is_on(std::string_view variable, const SettingValues& values, const Environment& environment) {
    const auto value = values.find(variable);
    return value == values.end() ? environment.contains(std::string(variable))
                                 : value->second != "0";
}

/// Whether the user has asked for something by it: "no" to a missing feature is obeyed.
bool is_asked_for(const Flag& setting, const SettingValues& values) {
    const auto value = values.find(setting.setting.variable);
    return value != values.end() && !(is_switch(setting) && value->second == "0");
}

/// One sentence about everything that was asked for in vain, or nothing.
std::string note_ignored(const SettingValues& flags,
                         const SettingValues& values,
                         const Environment& environment) {
    std::vector<std::string> names;
    for (const auto* setting : settings()) {
        if (!setting->setting.key.empty() && has_no_effect(*setting) &&
            is_asked_for(*setting, values)) {
            names.push_back(flags.contains(setting->setting.variable)
                                ? std::string(setting->names[0])
                                : "'" + std::string(setting->setting.key) + "' of the config file");
        }
    }
    // The runtime warns of it where no horovodrun does.
    const auto autotune = environment.find(kAutotune);
    if (!values.contains(kAutotune) && autotune != environment.end() && !autotune->second.empty() &&
        autotune->second != "0") {
        names.emplace_back(kAutotune);
    }
    return names.empty() ? ""
                         : join(names, ", ") + (names.size() == 1 ? " has" : " have") +
                               " no effect in this version";
}

std::vector<const Flag*> find_settings() {
    std::vector<const Flag*> found;
    for (const auto& group : setting_flags()) {
        for (const auto& flag : group.flags) {
            if (!flag.setting.variable.empty()) {
                found.push_back(&flag);
            }
        }
    }
    return found;
}

}  // namespace

const std::vector<const Flag*>& settings() {
    static const auto found = find_settings();
    return found;
}

Result<std::string> export_value(const Flag& setting, std::string_view text) {
    switch (setting.setting.kind) {
        case whole: {
            const auto value = parse_number<std::int64_t>(text);
            if (!value || !is_inside(setting, static_cast<double>(*value))) {
                return out_of_range(text, "a whole number" + up_to(setting));
            }
            return std::to_string(*value);
        }
        case real:
        case megabytes: return export_real(setting, text);
        case on:
        case off: return std::string((text == "1") == (setting.setting.kind == on) ? "1" : "0");
        case Kind::text:
            if (text.empty()) {
                return out_of_range(text, "a file name");
            }
            return std::string(text);
        case cpus: return export_cpus(text);
        case log_level: return export_log_level(text);
        case choice: return export_choice(setting, text);
    }
    return Error{Errc::internal, "unknown kind of setting"};
}

Status check_exported(const Flag& setting, std::string_view value) {
    if (is_switch(setting) && value != "0" && value != "1") {
        return out_of_range(value, "0 or 1");
    }
    if (setting.setting.kind == megabytes && !parse_number<std::uint64_t>(value)) {
        return out_of_range(value, "a whole number of bytes");
    }
    if (setting.setting.kind != megabytes) {
        HVD_TRY_STATUS(export_value(setting, value));
    }
    return ok();
}

Status add_setting(SettingValues& values, const Flag& setting, std::string_view text) {
    HVD_TRY(auto value, export_value(setting, is_switch(setting) ? "1" : text));
    const auto [entry, is_new] = values.emplace(setting.setting.variable, value);
    if (!is_new && is_switch(setting) && entry->second != value) {
        const auto opposite = std::ranges::find_if(settings(), [&](const Flag* each) {
            return each->setting.variable == setting.setting.variable &&
                   each->setting.kind != setting.setting.kind;
        });
        return wrong("contradicts " + std::string((*opposite)->names[0]));
    }
    entry->second = std::move(value);
    return ok();
}

ExportedSettings export_settings(const SettingValues& flags,
                                 const SettingValues& config,
                                 const Environment& environment) {
    SettingValues values = flags;
    values.insert(config.begin(), config.end());  // keeps the values of flags

    ExportedSettings exported{.variables = {}, .note = note_ignored(flags, values, environment)};
    for (const auto& [variable, value] : values) {
        const auto needs = needed_by(variable);
        const bool is_idle =
            !needs.empty() && std::ranges::none_of(needs, [&](std::string_view need) {
                return is_on(need, values, environment);
            });
        const bool is_off = variable == kAutotune && value == "0";
        if (!is_idle && (!is_off || environment.contains(std::string(kAutotune)))) {
            exported.variables.emplace(variable, value);
        }
    }
    return exported;
}

}  // namespace hvd::launch
