// SPDX-License-Identifier: Apache-2.0
//
// The error about a word that looks like a flag of horovodrun and is none.
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string>

namespace hvd::launch {
namespace {

/// A flag of another launcher, and what to do here instead.
struct OtherFlag {
    std::string_view name;  // without dashes, '_' as '-'
    std::string_view advice;
};

constexpr std::string_view kSlots =
    "the slots of the hosts say so: -H node1:4,node2:4; on this machine alone -np says it";
constexpr std::string_view kNeedless = "it is not needed here; leave it out";
constexpr std::string_view kOrder =
    "ranks fill the hosts in their order, --bind-to and --gpu-bind give them CPUs and GPUs; leave "
    "it out, or let mpirun see to that: --mpi --binding-args";

constexpr std::array kOtherFlags{
    OtherFlag{"x", "write --env NAME[=VALUE]"},
    OtherFlag{"genv", "write --env NAME=VALUE"},
    OtherFlag{"machinefile", "write -hostfile FILE"},
    OtherFlag{"N", kSlots},
    OtherFlag{"ppn", kSlots},
    OtherFlag{"npernode", kSlots},
    OtherFlag{"nproc-per-node", kSlots},
    OtherFlag{"ntasks-per-node", kSlots},
    OtherFlag{"nnodes", "the hosts are those of -H node1:4,node2:4 or -hostfile FILE"},
    OtherFlag{"allow-run-as-root", kNeedless},
    OtherFlag{"map-by", kOrder},
    OtherFlag{"rank-by", kOrder},
    OtherFlag{"mca", "MCA parameters are for Open MPI: --mpi --mpi-args='--mca NAME VALUE'"},
};

bool is_negation(std::string_view name) {
    return bare_name(name).starts_with("no-");
}

std::optional<std::string> advise_other(std::string_view spelled) {
    std::string name(bare_name(spelled));
    std::ranges::replace(name, '_', '-');
    const auto* const known = std::ranges::find(kOtherFlags, name, &OtherFlag::name);
    return known == kOtherFlags.end() ? std::nullopt : std::optional(std::string(known->advice));
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

/// The flags of which `spelled` is a beginning, each by one name.
std::vector<std::string> completions(std::string_view spelled) {
    constexpr std::size_t kLeastLetters = 3;  // fewer begin half of all names
    std::vector<std::string> found;
    if (bare_name(spelled).size() < kLeastLetters) {
        return found;
    }
    for (const auto& group : flag_groups()) {
        for (const auto& flag : group.flags) {
            const auto* const name = std::ranges::find_if(flag.names, [&](std::string_view each) {
                return bare_name(each).starts_with(bare_name(spelled));
            });
            if (name != flag.names.end() && (is_setting(flag) || !flag.help.empty())) {
                found.emplace_back(*name);
            }
        }
    }
    return found;
}

/// The flag that `spelled` may have been meant to be: never one that says the opposite.
std::optional<std::string_view> nearest_flag(std::string_view spelled) {
    std::vector<std::string_view> spellings;
    for (const auto& group : flag_groups()) {
        for (const auto& flag : group.flags) {
            std::ranges::copy_if(
                flag.names, std::back_inserter(spellings), [&](std::string_view each) {
                    return !each.empty() && is_negation(each) == is_negation(spelled);
                });
        }
    }
    std::vector<std::string_view> names;
    std::ranges::transform(spellings, std::back_inserter(names), bare_name);
    const auto name = nearest(bare_name(spelled), names);
    if (!name) {
        return std::nullopt;
    }
    return *std::ranges::find(spellings, *name, bare_name);
}

std::string advise(std::string_view word, std::string_view spelled) {
    constexpr std::size_t kMost = 6;
    if (const auto advice = advise_other(spelled)) {
        return *advice;
    }
    if (const auto advice = advise_space(word)) {
        return *advice;
    }
    if (const auto names = completions(spelled); !names.empty()) {
        return "did you mean " + std::string(names.size() > 1 ? "one of " : "") +
               join_first(names, kMost) + "?";
    }
    const auto guess = nearest_flag(spelled);
    return guess ? "did you mean " + std::string(*guess) + "?"
                 : "'horovodrun --help all' lists the flags";
}

}  // namespace

Error unknown_flag(std::string_view word) {
    const auto spelled = without_value(word);
    return wrong("unknown flag '" + std::string(spelled) + "'; " + advise(word, spelled));
}

}  // namespace hvd::launch
