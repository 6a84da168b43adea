// SPDX-License-Identifier: Apache-2.0
//
// Settings of the runtime: the flags of the table that set a variable of the ranks.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/cli/flag.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The flags with a variable, in the order of --help.
[[nodiscard]] const std::vector<const Flag*>& settings();

/// The value of the variable for a value as a person writes it; for a flag without value "1" (as
/// the flag says) or "0" (the opposite). Errors: invalid_argument with the value's range, without
/// naming the flag.
[[nodiscard]] Result<std::string> export_value(const Flag& setting, std::string_view text);

/// Whether the runtime takes the variable with this value. Errors: as of export_value.
[[nodiscard]] Status check_exported(const Flag& setting, std::string_view value);

/// Variable → value, as given by flags or by the config file.
using SettingValues = std::map<std::string_view, std::string>;

/// Adds the value of a flag. Errors: as of export_value, and for a flag that says the opposite of
/// one before it.
[[nodiscard]] Status add_setting(SettingValues& values, const Flag& setting, std::string_view text);

struct ExportedSettings {
    Environment variables;
    std::string note;  // names the settings that were asked for and have no effect
};

/// The variables of the ranks: the flags, then what only the config file has. Settings of the
/// autotuner are exported only when it is on, those of the timeline only when it has a file, as in
/// the original. `environment` is horovodrun's own: what is on there is turned off explicitly.
[[nodiscard]] ExportedSettings export_settings(const SettingValues& flags,
                                               const SettingValues& config,
                                               const Environment& environment);

}  // namespace hvd::launch
