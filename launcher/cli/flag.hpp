// SPDX-License-Identifier: Apache-2.0
//
// The table of all flags. The parser, --help, the manual's chapter, the keys of the config file,
// guesses at misspelt flags and the shells' completions are made from it.
#pragma once

#include "collectives/base/result.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

struct Draft;

/// Where a flag has a meaning, as bits.
enum Place : std::uint8_t {
    in_job = 1,     // horovodrun [flags] command
    in_doctor = 2,  // horovodrun doctor
    in_join = 4,    // horovodrun --join
    in_task = 8,    // in a task of another launcher
};

/// The value of a setting: a flag that sets a variable of the ranks.
enum class Kind : std::uint8_t {
    whole,      // a whole number
    real,       // a decimal number
    megabytes,  // a decimal number of MiB; the variable has bytes
    on,         // no value: the variable becomes 1
    off,        // no value: the variable becomes 0
    text,       // a file name
    cpus,       // a comma list of CPU numbers
    log_level,  // TRACE to FATAL
    choice,     // one of the words in Flag::value
};

/// How a flag that has no `apply` sets a variable of the ranks.
struct Setting {
    std::string_view variable{};
    std::string_view key{};  // section and name in the config file: "params.cycle_time_ms"
    Kind kind = Kind::on;
    double high = std::numeric_limits<int>::max();  // the highest number; the lowest is 0
};

/// Properties that few flags have.
struct Details {
    std::string_view brief{};     // a line for the first page of --help; empty: not on that page
    std::string_view standard{};  // the default
    std::uint8_t places = in_job | in_doctor;
};

using Apply = Status (*)(Draft&, std::string_view);

/// One flag under all its names.
struct Flag {
    std::string_view spelling{};              // "-p, --ssh-port PORT", as --help shows it
    std::array<std::string_view, 3> names{};  // with their dashes
    std::string_view value{};                 // the name of its value; empty: it takes none
    std::string_view help{};                  // empty: accepted, but listed nowhere
    Details details{};

    /// Takes the value. Its Error says what is wrong with it; the caller adds flag and value.
    /// nullptr: the flag is a setting.
    Apply apply = nullptr;
    Setting setting{};
};

/// A row of the table.
constexpr Flag flag(std::string_view spelling,
                    std::string_view help,
                    Apply apply,
                    Details details = {}) {
    Flag made{.spelling = spelling, .help = help, .details = details, .apply = apply};
    for (auto& name : made.names) {
        if (!spelling.starts_with('-')) {
            break;
        }
        name = spelling.substr(0, spelling.find_first_of(", "));
        spelling.remove_prefix(name.size());
        spelling.remove_prefix(std::min(spelling.size(), spelling.find_first_not_of(", ")));
    }
    made.value = spelling;
    return made;
}

/// A row of a setting.
constexpr Flag setting(std::string_view spelling,
                       std::string_view help,
                       const Setting& setting,
                       Details details = {}) {
    auto made = flag(spelling, help, nullptr, details);
    made.setting = setting;
    return made;
}

struct FlagGroup {
    std::string_view title;
    std::span<const Flag> flags;
};

// Parts of the table, for flags.cpp.
[[nodiscard]] std::span<const FlagGroup> job_flags() noexcept;
[[nodiscard]] std::span<const FlagGroup> host_flags() noexcept;
[[nodiscard]] std::span<const FlagGroup> rank_flags() noexcept;
[[nodiscard]] std::span<const FlagGroup> limit_flags() noexcept;
[[nodiscard]] std::span<const FlagGroup> setting_flags() noexcept;

/// All groups in the order of --help.
[[nodiscard]] const std::vector<FlagGroup>& flag_groups();

/// The flag of a word of the command line, with its value or without. A one-character name has one
/// dash, a longer one has one or two. nullptr: there is none.
[[nodiscard]] const Flag* find_flag(std::string_view word);

/// "--np=4" → "--np".
[[nodiscard]] std::string_view without_value(std::string_view word) noexcept;

/// "--hostfile" and "-hostfile" → "hostfile".
[[nodiscard]] std::string_view bare_name(std::string_view name) noexcept;

/// Whether the original has the flag and this version accepts it without effect.
[[nodiscard]] bool has_no_effect(const Flag& flag) noexcept;

/// Whether the flag is about elastic jobs, which are refused.
[[nodiscard]] bool is_elastic(const Flag& flag) noexcept;

/// Whether it is a setting of the runtime.
[[nodiscard]] constexpr bool is_setting(const Flag& flag) noexcept {
    return flag.apply == nullptr;
}

/// An error about `word`, which looks like a flag and is none: with the flag that may be meant.
[[nodiscard]] Error unknown_flag(std::string_view word);

// Texts. `columns` is the width of the terminal.
[[nodiscard]] std::string short_help(std::size_t columns);
[[nodiscard]] std::string full_help(std::size_t columns);
[[nodiscard]] std::string doctor_help(std::size_t columns);

/// The chapter about flags of the manual (Markdown).
[[nodiscard]] std::string manual_chapter();

/// For the shells' completion scripts: a line for each listed name, with a summary and the name of
/// its value, separated by tabs.
[[nodiscard]] std::string completion_table();

}  // namespace hvd::launch
