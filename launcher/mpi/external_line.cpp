// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/external_line.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>

namespace hvd::launch::mpi {
namespace {

struct Option {
    std::string_view name;  // without its dashes: each MPI takes one or two
    std::size_t values = 0;
};

// What Open MPI's mpirun and hydra have alike or apart; no name means two things.
constexpr auto kOptions = std::to_array<Option>({
    // Both.
    {"n", 1},
    {"np", 1},
    {"host", 1},
    {"hostfile", 1},
    {"bind-to", 1},
    {"map-by", 1},
    {"wdir", 1},
    // Open MPI.
    {"c", 1},
    {"N", 1},
    {"npernode", 1},
    {"H", 1},
    {"machinefile", 1},
    {"rank-by", 1},
    {"mca", 2},
    {"gmca", 2},
    {"x", 1},
    {"wd", 1},
    {"output", 1},
    {"output-filename", 1},
    {"stdin", 1},
    {"prefix", 1},
    {"timeout", 1},
    {"oversubscribe"},
    {"nooversubscribe"},
    {"allow-run-as-root"},
    {"tag-output"},
    {"timestamp-output"},
    {"report-bindings"},
    {"display-map"},
    {"quiet"},
    {"q"},
    {"verbose"},
    {"v"},
    // hydra.
    {"f", 1},
    {"hosts", 1},
    {"ppn", 1},
    {"genv", 2},
    {"env", 2},
    {"genvlist", 1},
    {"envlist", 1},
    {"launcher", 1},
    {"bootstrap", 1},
    {"iface", 1},
    {"genvall"},
    {"genvnone"},
    {"l"},
    {"prepend-rank"},
});

std::optional<std::size_t> values_of(std::string_view word) {
    const auto bare = word.substr(word.starts_with("--") ? 2 : 1);
    const auto* option = std::ranges::find(kOptions, bare, &Option::name);
    return option == kOptions.end() ? std::nullopt : std::optional(option->values);
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words) {
        text += (text.empty() ? "" : " ") + word;
    }
    return text;
}

Error refuse(const std::vector<std::string>& line, const std::string& why) {
    return {Errc::invalid_argument,
            why +
                ", so where its program begins cannot be told; write horovodrun in front of the "
                "program yourself: " +
                line.front() + " ... horovodrun PROGRAM, in: " + joined(line)};
}

}  // namespace

Result<std::vector<std::string>> insert_shim(const std::vector<std::string>& line,
                                             const std::string& shim) {
    std::size_t at = 1;
    while (at < line.size() && line[at].starts_with('-')) {
        const auto values = values_of(line[at]);
        if (!values) {
            return refuse(line, line.front() + " option " + line[at] + " is not known here");
        }
        at += 1 + *values;
    }
    if (at >= line.size()) {
        return refuse(line, line.front() + " has no program");
    }
    if (std::ranges::find(line, ":") != line.end()) {
        return refuse(line, "':' separates several programs");
    }
    auto result = line;
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), shim);
    return result;
}

}  // namespace hvd::launch::mpi
