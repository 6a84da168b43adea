// SPDX-License-Identifier: Apache-2.0
//
// What is said about a word that looks like a flag and is none of ours.
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string>

namespace hvd::launch {
namespace {

/// A flag of another launcher, and what to do here instead.
struct Foreign {
    std::string_view name;  // without dashes, '_' as '-'
    std::string_view advice;
};

constexpr std::string_view kSlots =
    "the slots of the hosts say so: -H node1:4,node2:4; on this machine alone -np says it";
constexpr std::string_view kNeedless = "it is not needed here; leave it out";
constexpr std::string_view kOrder =
    "ranks fill the hosts in their order, --bind-to and --gpu-bind give them CPUs and GPUs; leave "
    "it out, or let mpirun see to that: --mpi --binding-args";

constexpr std::array kForeign{
    Foreign{"x", "write --env NAME[=VALUE]"},
    Foreign{"genv", "write --env NAME=VALUE"},
    Foreign{"machinefile", "write -hostfile FILE"},
    Foreign{"N", kSlots},
    Foreign{"ppn", kSlots},
    Foreign{"npernode", kSlots},
    Foreign{"nproc-per-node", kSlots},
    Foreign{"ntasks-per-node", kSlots},
    Foreign{"nnodes", "the hosts are those of -H node1:4,node2:4 or -hostfile FILE"},
    Foreign{"oversubscribe", kNeedless},
    Foreign{"allow-run-as-root", kNeedless},
    Foreign{"map-by", kOrder},
    Foreign{"rank-by", kOrder},
    Foreign{"mca", "MCA parameters are for Open MPI: --mpi --mpi-args='--mca NAME VALUE'"},
};

std::string_view bare(std::string_view spelled) {
    return spelled.substr(std::min(spelled.find_first_not_of('-'), spelled.size()));
}

bool is_negation(std::string_view name) {
    return bare(name).starts_with("no-");
}

std::optional<std::string> advise_foreign(std::string_view spelled) {
    std::string name(bare(spelled));
    std::ranges::replace(name, '_', '-');
    const auto* const known = std::ranges::find(kForeign, name, &Foreign::name);
    return known == kForeign.end() ? std::nullopt : std::optional(std::string(known->advice));
}

/// "-p22" → "-p 22".
std::optional<std::string> advise_space(std::string_view word) {
    for (const std::string_view name : {"-np", "-n", "-p", "-H"}) {
        if (!word.starts_with(name) || word.size() == name.size()) {
            continue;
        }
        const auto value = word.substr(name.size());
        if (name == "-H" || std::isdigit(static_cast<unsigned char>(value.front())) != 0) {
            return "write a space: " + std::string(name) + " " + std::string(value);
        }
    }
    return std::nullopt;
}

/// The flags of --help of which `spelled` is a beginning, each by one name.
std::vector<std::string> completions(const std::vector<FlagSection>& sections,
                                     std::string_view spelled) {
    constexpr std::size_t kLeastLetters = 3;  // fewer begin half of all names
    std::vector<std::string> found;
    if (bare(spelled).size() < kLeastLetters) {
        return found;
    }
    for (const auto& section : sections) {
        for (const auto& flag : section.flags) {
            const auto name = std::ranges::find_if(flag.names, [&](std::string_view each) {
                return bare(each).starts_with(bare(spelled));
            });
            if (name != flag.names.end() && !flag.help.empty()) {
                found.emplace_back(*name);
            }
        }
    }
    return found;
}

/// What `spelled` may have been meant to be: never a flag that says the opposite.
std::optional<std::string_view> nearest_flag(const std::vector<FlagSection>& sections,
                                             std::string_view spelled) {
    const auto is_alike = [&](std::string_view each) {
        return is_negation(each) == is_negation(spelled);
    };
    std::vector<std::string_view> spellings;
    for (const auto& section : sections) {
        for (const auto& flag : section.flags) {
            std::ranges::copy_if(flag.names, std::back_inserter(spellings), is_alike);
        }
    }
    std::vector<std::string_view> names;
    std::ranges::transform(spellings, std::back_inserter(names), bare);
    const auto name = nearest(bare(spelled), names);
    if (!name) {
        return std::nullopt;
    }
    return *std::ranges::find(spellings, *name, bare);
}

std::string advise(const std::vector<FlagSection>& sections,
                   std::string_view word,
                   std::string_view spelled) {
    constexpr std::size_t kMost = 6;
    if (const auto advice = advise_foreign(spelled)) {
        return *advice;
    }
    if (const auto advice = advise_space(word)) {
        return *advice;
    }
    if (const auto names = completions(sections, spelled); !names.empty()) {
        return "did you mean " + std::string(names.size() > 1 ? "one of " : "") +
               join_first(names, kMost) + "?";
    }
    const auto guess = nearest_flag(sections, spelled);
    return guess ? "did you mean " + std::string(*guess) + "?"
                 : "'horovodrun --help' lists the flags";
}

}  // namespace

Error unknown_flag(const std::vector<FlagSection>& sections, std::string_view word) {
    const auto spelled = word.substr(0, word.find('='));
    return {Errc::invalid_argument,
            "unknown flag '" + std::string(spelled) + "'; " + advise(sections, word, spelled)};
}

}  // namespace hvd::launch
