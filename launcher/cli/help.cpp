// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"

namespace hvd::launch {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kHelpColumn = 32;

/// Breaks the text at blanks; every line but the first begins at kHelpColumn.
std::string wrap(std::string_view text) {
    const std::string indent(kHelpColumn, ' ');
    std::string wrapped;
    std::size_t column = kHelpColumn;
    for (const auto word : split(text, ' ')) {
        if (column != kHelpColumn && column + 1 + word.size() > kColumns) {
            wrapped += "\n" + indent;
            column = kHelpColumn;
        }
        if (column != kHelpColumn) {
            wrapped += ' ';
            ++column;
        }
        wrapped += word;
        column += word.size();
    }
    return wrapped + "\n";
}

std::string describe(const Flag& flag) {
    std::string line = " ";
    for (const auto name : flag.names) {
        line += (line.size() == 1 ? " " : ", ") + std::string(name);
    }
    if (!flag.value_name.empty()) {
        line += " " + std::string(flag.value_name);
    }
    if (line.size() + 2 > kHelpColumn) {
        return line + "\n" + std::string(kHelpColumn, ' ') + wrap(flag.help);
    }
    line.resize(kHelpColumn, ' ');
    return line + wrap(flag.help);
}

}  // namespace

std::string help_text(const std::vector<FlagSection>& sections) {
    std::string text =
        "Usage: horovodrun [flags] command [argument...]\n"
        "       horovodrun -np 4 python3 train.py\n"
        "       horovodrun doctor [flags] [command]: examine hosts, start no rank\n"
        "       horovodrun timeline --help: merge the traces of --timeline-all\n"
        "\n"
        "Starts a command several times, on this machine or others, as the ranks of one\n"
        "job; places, watches and ends them. The first word that is no flag begins the\n"
        "command, and so does --; from there on nothing is read. Flags are not\n"
        "abbreviated.\n";
    for (const auto& section : sections) {
        text += "\n" + std::string(section.title) + ":\n";
        for (const auto& flag : section.flags) {
            text += flag.help.empty() ? "" : describe(flag);
        }
    }
    text +=
        "\n"
        "Exit codes: the first failing rank's own, or 128 + the signal that ended it;\n"
        "2 usage or refused plan, 124 time limit, 125 horovodrun's own failure, 126 the\n"
        "command cannot be executed, 127 it was not found, 141 standard output closed.\n";
    return text;
}

}  // namespace hvd::launch
