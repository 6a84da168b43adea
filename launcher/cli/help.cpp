// SPDX-License-Identifier: Apache-2.0
//
// The pages of --help and the manual's chapter about flags, made from the table.
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"

#include <algorithm>
#include <functional>

namespace hvd::launch {
namespace {

constexpr std::size_t kHelpColumn = 32;
constexpr std::size_t kMostColumns = 120;  // longer lines are hard to read

constexpr std::string_view kUsage =
    "Usage: horovodrun [flags] command [argument...]\n"
    "       horovodrun doctor [flags] [command]     examine hosts, start no rank\n"
    "       horovodrun timeline [-o FILE] DIR       merge traces of --timeline-all\n"
    "\n";

/// Appends the words of `text`, of which the first is at `column`, and breaks lines before
/// `columns`. Every line but the first begins at `indent`.
std::string wrap(std::string_view text, std::size_t indent, std::size_t columns) {
    columns = std::clamp(columns, kHelpColumn + 20, kMostColumns);
    std::string wrapped;
    std::size_t column = indent;
    for (const auto word : split(text, ' ')) {
        const bool is_first = column == indent;
        if (!is_first && column + 1 + word.size() > columns) {
            wrapped += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (!is_first) {
            wrapped += ' ';
            ++column;
        }
        wrapped += word;
        column += word.size();
    }
    return wrapped + "\n";
}

std::string full_text(const Flag& flag) {
    return std::string(flag.help) +
           (flag.details.standard.empty()
                ? ""
                : " (default: " + std::string(flag.details.standard) + ")");
}

std::string describe(const Flag& flag, std::string_view text, std::size_t columns) {
    std::string line = "  " + std::string(flag.spelling);
    if (line.size() + 2 > kHelpColumn) {
        line += '\n';
        line.append(kHelpColumn, ' ');
    } else {
        line.resize(kHelpColumn, ' ');
    }
    return line + wrap(text, kHelpColumn, columns);
}

/// The groups with those of their listed flags that are `wanted`.
std::string list_groups(std::size_t columns, const std::function<bool(const Flag&)>& wanted) {
    std::string text;
    for (const auto& group : flag_groups()) {
        std::string flags;
        for (const auto& flag : group.flags) {
            flags +=
                !flag.help.empty() && wanted(flag) ? describe(flag, full_text(flag), columns) : "";
        }
        text += flags.empty() ? "" : "\n" + std::string(group.title) + ":\n" + flags;
    }
    return text;
}

/// Words at blanks, but quoted ones together: "--mpi-args='--mca pml ucx'".
std::vector<std::string> split_quoted(std::string_view text) {
    std::vector<std::string> words;
    bool is_open = false;
    for (const auto part : split(text, ' ')) {
        if (is_open) {
            words.back().append(" ").append(part);
        } else {
            words.emplace_back(part);
        }
        const auto quote = part.find('\'');  // no apostrophe
        const bool opens =
            quote == 0 || (quote != std::string_view::npos && part[quote - 1] == '=');
        is_open = (is_open || opens) && std::ranges::count(words.back(), '\'') % 2 != 0;
    }
    return words;
}

/// Marks as code: names of flags and variables, paths, and what Markdown would take for its own.
std::string as_markdown(std::string_view text) {
    std::string marked;
    for (const auto& word : split_quoted(text)) {
        const auto first = std::min(word.find_first_not_of('('), word.size());
        const auto end = word.find_last_not_of(",.:;)") + 1;
        const auto core = word.substr(first, std::max(end, first) - first);
        const bool is_flag = core.size() > 1 && core.front() == '-';
        const bool is_code = is_flag || core.find_first_of("/*<{=_[@^'") == 0 ||
                             core.find_first_of("/*<{=_[@^") != std::string::npos;
        marked += marked.empty() ? "" : " ";
        marked += is_code ? word.substr(0, first) + "`" + core + "`" + word.substr(end) : word;
    }
    return marked;
}

/// "`--a`, `--b`" of the flags that are listed nowhere and are `wanted`.
std::string list_hidden(const std::function<bool(const Flag&)>& wanted) {
    std::string list;
    for (const auto& group : flag_groups()) {
        for (const auto& flag : group.flags) {
            if (flag.help.empty() && wanted(flag)) {
                list += (list.empty() ? "`" : ", `") + std::string(flag.spelling) + "`";
            }
        }
    }
    return list;
}

}  // namespace

std::string short_help(std::size_t columns) {
    std::string text(kUsage);
    for (const auto& group : flag_groups()) {
        for (const auto& flag : group.flags) {
            text += flag.details.brief.empty() ? "" : describe(flag, flag.details.brief, columns);
        }
    }
    return text + "\n" +
           wrap(
               "Exit code: that of the first rank that failed, or 128 + its signal; or "
               "horovodrun's.",
               0, columns);
}

std::string full_help(std::size_t columns) {
    return std::string(kUsage) +
           wrap(
               "Starts a command several times, on this machine or others, as the ranks of one "
               "job; places, watches and ends them. The first word that is no flag begins the "
               "command, and so does --; horovodrun reads nothing after it. Flags are not "
               "abbreviated.",
               0, columns) +
           list_groups(columns, [](const Flag&) { return true; }) + "\n" +
           wrap(
               "Exit codes: the first failing rank's own, or 128 + the signal that ended it; 2 "
               "usage or refused plan, 124 time limit, 125 horovodrun's own failure, 126 the "
               "command cannot be executed, 127 it was not found, 141 standard output closed.",
               0, columns);
}

std::string doctor_help(std::size_t columns) {
    return "Usage: horovodrun doctor [flags] [command]\n\n" +
           wrap(
               "Examines the hosts of a job and starts no rank: whether each is reached, what CPUs "
               "and GPUs it has, whether it can run the command, whether the ranks fit, and the "
               "speed of the links between hosts. It goes on where a host fails. A job's flags "
               "may stay on the line: write doctor behind horovodrun.",
               0, columns) +
           list_groups(columns,
                       [](const Flag& flag) {
                           return !is_setting(flag) && (flag.details.places & in_doctor) != 0;
                       }) +
           "\n" +
           wrap(
               "Exit codes: 0 all is well, 1 something is not, 2 usage or a plan that cannot work, "
               "125 horovodrun's own failure. A program called doctor is started by `horovodrun -- "
               "doctor`.",
               0, columns);
}

std::string manual_chapter() {
    std::string text;
    for (const auto& group : flag_groups()) {
        std::string flags;
        for (const auto& flag : group.flags) {
            flags += flag.help.empty() ? ""
                                       : "- `" + std::string(flag.spelling) +
                                             "`: " + as_markdown(full_text(flag)) + "\n";
        }
        text += flags.empty() ? "" : "### " + std::string(group.title) + "\n\n" + flags + "\n";
    }
    return text + "### Accepted as by the original\n\nWithout effect in this version: " +
           list_hidden(has_no_effect) + ".\n\nThe opposites of defaults, or of other flags: " +
           list_hidden([](const Flag& flag) { return !has_no_effect(flag) && !is_elastic(flag); }) +
           ".\n\nRefused, because elastic jobs are not part of this version: " +
           list_hidden(is_elastic) + ".\n";
}

namespace {

/// A line for each name: name, summary, value.
std::string completions_of(const Flag& flag) {
    std::string lines;
    const auto text = flag.details.brief.empty() ? flag.help : flag.details.brief;
    const auto summary = text.substr(0, text.find_first_of(";:("));
    for (const auto name : flag.names) {
        if (!name.empty() && !flag.help.empty()) {
            lines.append(name).append("\t").append(summary).append("\t");
            lines.append(flag.value).append("\n");
        }
    }
    return lines;
}

}  // namespace

std::string completion_table() {
    std::string table;
    for (const auto& group : flag_groups()) {
        for (const auto& flag : group.flags) {
            table += completions_of(flag);
        }
    }
    return table;
}

}  // namespace hvd::launch
