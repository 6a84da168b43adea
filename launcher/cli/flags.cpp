// SPDX-License-Identifier: Apache-2.0
//
// The groups of the table in their order, the flags that print a text, and look-up.
#include "collectives/launch_contract/ignored_variables.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {
namespace {

Status ignore(Draft& /*draft*/, std::string_view /*value*/) {
    return ok();
}

Status refuse_elastic(Draft& /*draft*/, std::string_view /*value*/) {
    return Error{Errc::unsupported,
                 "elastic jobs are not part of this version; leave the flag out to start a fixed "
                 "number of ranks with -np N"};
}

/// Of the original.
constexpr std::array kOtherFlags{
    flag("--gloo",
         "start the ranks without an mpirun, whatever the config file says",
         [](Draft& draft, std::string_view) {
             draft.is_native = true;
             return ok();
         },
         {.places = in_job}),
    flag("--disable-cache", "", ignore),
    flag("--min-np, --min-num-proc N", "", refuse_elastic),
    flag("--max-np, --max-num-proc N", "", refuse_elastic),
    flag("--host-discovery-script FILE", "", refuse_elastic),
    flag("--slots-per-host, --slots N", "", refuse_elastic),
    flag("--elastic-timeout SECONDS", "", refuse_elastic),
    flag("--reset-limit N", "", refuse_elastic),
    flag("--blacklist-cooldown-range MIN MAX", "", refuse_elastic),
};

constexpr std::array kAboutFlags{
    flag("-h, --help",
         "print the flags that are used most; --help all: every flag",
         ignore,
         {.brief = "print this page; --help all: every flag",
          .places = in_job | in_doctor | in_join | in_task}),
    flag("-v, --version",
         "print the version alone",
         ignore,
         {.places = in_job | in_doctor | in_join | in_task}),
    flag("-cb, --check-build",
         "print which frameworks, controllers and operations are there: the frameworks of "
         "the Python beside horovodrun in a virtual environment, else of the one in PATH; "
         "with -v or --verbose also where they are",
         [](Draft& draft, std::string_view) {
             draft.is_check_build = true;
             return ok();
         },
         {.brief = "features of this build, installed frameworks",
          .places = in_job | in_doctor | in_join | in_task}),
    flag("--json",
         "with doctor or --check-build: print JSON",
         [](Draft& draft, std::string_view) {
             draft.json = true;
             return ok();
         },
         {.places = in_doctor}),
};

constexpr std::array kOwnGroups{FlagGroup{"For command lines of the original", kOtherFlags},
                                FlagGroup{"About", kAboutFlags}};

}  // namespace

const std::vector<FlagGroup>& flag_groups() {
    static const auto groups = [] {
        std::vector<FlagGroup> all;
        for (const std::span<const FlagGroup> part :
             {job_flags(), host_flags(), rank_flags(), limit_flags(), setting_flags(),
              std::span<const FlagGroup>(kOwnGroups)}) {
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }();
    return groups;
}

std::string_view without_value(std::string_view word) noexcept {
    return word.substr(0, word.find('='));
}

std::string_view bare_name(std::string_view name) noexcept {
    return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

const Flag* find_flag(std::string_view word) {
    const auto spelled = without_value(word);
    const auto name = bare_name(spelled);
    const auto dashes = spelled.size() - name.size();
    if (name.empty() || dashes < 1 || dashes > (name.size() == 1 ? 1 : 2)) {
        return nullptr;
    }
    for (const auto& group : flag_groups()) {
        for (const auto& flag : group.flags) {
            if (std::ranges::find(flag.names, name, bare_name) != flag.names.end()) {
                return &flag;
            }
        }
    }
    return nullptr;
}

bool has_no_effect(const Flag& flag) noexcept {
    return flag.apply == ignore
               ? flag.help.empty()
               : std::ranges::find(coll::kIgnoredVariables, flag.setting.variable) !=
                     coll::kIgnoredVariables.end();
}

bool is_elastic(const Flag& flag) noexcept {
    return flag.apply == refuse_elastic;
}

}  // namespace hvd::launch
