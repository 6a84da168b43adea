// SPDX-License-Identifier: Apache-2.0
//
// The settings of the runtime that can be given to horovodrun: one table of flag, variable and key
// of the config file. Flags, config file, --help and the variables of the ranks are made from it.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace hvd::launch {

enum class TunableKind {
    whole,      // a whole number
    real,       // a decimal number
    megabytes,  // a decimal number of MiB; the variable has bytes
    boolean,    // a pair of flags; the variable has 1 or 0
    text,       // a file name
    cpus,       // a comma list of CPU numbers
    log_level,  // TRACE to FATAL
};

struct Tunable {
    std::string_view flag = {};      // with dashes; for a boolean the flag that says yes
    std::string_view off_flag = {};  // for a boolean the flag that says no
    std::string_view variable = {};
    std::string_view key = {};  // section and name in the config file: "params.cycle_time_ms"
    TunableKind kind = TunableKind::boolean;
    double low = 0;  // of numbers
    double high = 0;
    std::string_view value_name = {};
    std::string_view help = {};      // of `flag`; empty: --help does not show it
    std::string_view off_help = {};  // of `off_flag`
    bool inverted = false;           // yes is exported as 0
    bool is_idle = false;            // nothing of this version obeys it
};

/// In the order of --help; the entries of one section stand together.
[[nodiscard]] std::span<const Tunable> tunables() noexcept;

/// What the variable gets for a value as a person writes it (yes or no for a boolean: "1", "0").
/// Errors: invalid_argument with the value's range, without naming the flag.
[[nodiscard]] Result<std::string> export_value(const Tunable& tunable, std::string_view text);

/// Whether the runtime takes the variable with this value. Errors: as of export_value.
[[nodiscard]] Status check_exported(const Tunable& tunable, std::string_view value);

/// Variable → value, as given by flags or by the config file.
using TunableValues = std::map<std::string_view, std::string>;

struct ExportedTunables {
    Environment variables;
    std::string note;  // names what was asked for and has no effect in this version
};

/// What the ranks get: the flags, then what only the config file has. Settings of the autotuner go
/// out only when it is on, those of the timeline only when it has a file, as in the original.
/// `environment` is horovodrun's own: what is on there is
/// turned off explicitly.
[[nodiscard]] ExportedTunables export_tunables(const TunableValues& flags,
                                               const TunableValues& config,
                                               const Environment& environment);

}  // namespace hvd::launch
