// SPDX-License-Identifier: Apache-2.0
//
// Flags made from the table of tunables; flags of the original that do nothing here or not yet.
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::string_view kElastic =
    "elastic jobs are not part of this version; leave the flag out to start a fixed number of "
    "ranks with -np N";

using Apply = std::function<Status(Draft&, std::string_view)>;

Apply refuse(std::string_view why) {
    return [why](Draft&, std::string_view) -> Status {
        return Error{Errc::unsupported, std::string(why)};
    };
}

Apply set_tunable(const Tunable& tunable) {
    return [&tunable](Draft& draft, std::string_view text) -> Status {
        HVD_TRY(auto value, export_value(tunable, text));
        draft.tunables.insert_or_assign(tunable.variable, std::move(value));
        return ok();
    };
}

/// One of a pair of flags; both together are a contradiction, not a sequence.
Apply set_switch(const Tunable& tunable, bool on) {
    return [&tunable, on](Draft& draft, std::string_view) -> Status {
        HVD_TRY(auto value, export_value(tunable, on ? "1" : "0"));
        const auto [entry, is_new] = draft.tunables.emplace(tunable.variable, value);
        if (!is_new && entry->second != value) {
            return Error{Errc::invalid_argument,
                         "contradicts " + std::string(on ? tunable.off_flag : tunable.flag)};
        }
        return ok();
    };
}

void add_flags(const Tunable& tunable, std::vector<Flag>& flags) {
    std::string help(tunable.help);
    if (tunable.is_idle && !help.empty()) {
        help += "; accepted, but without effect in this version";
    }
    if (tunable.kind != TunableKind::boolean) {
        flags.push_back({{tunable.flag}, tunable.value_name, help, set_tunable(tunable)});
        return;
    }
    flags.push_back({{tunable.flag}, "", help, set_switch(tunable, true)});
    flags.push_back(
        {{tunable.off_flag}, "", std::string(tunable.off_help), set_switch(tunable, false)});
}

}  // namespace

std::vector<FlagSection> tunable_flags() {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSections{{
        {"params.", "Tuning"},
        {"autotune.", "Autotune"},
        {"timeline.", "Timeline"},
        {"stall_check.", "Stall check"},
        {"library_options.", "Libraries"},
        {"logging.", "Logging"},
    }};
    std::vector<FlagSection> sections;
    for (const auto& [prefix, title] : kSections) {
        auto& section = sections.emplace_back(FlagSection{title, {}});
        for (const auto& tunable : tunables()) {
            if (tunable.key.starts_with(prefix)) {
                add_flags(tunable, section.flags);
            }
        }
    }
    auto& libraries = sections[4].flags;
    libraries.push_back({{"--tcp"},
                         "",
                         "NCCL uses TCP instead of InfiniBand (NCCL_IB_DISABLE=1)",
                         [](Draft& draft, std::string_view) {
                             draft.request.tunables["NCCL_IB_DISABLE"] = "1";
                             draft.request.mpi.is_tcp = true;
                             return ok();
                         }});
    return sections;
}

FlagSection later_flags() {
    const auto elastic = refuse(kElastic);
    return {"For command lines of the original",
            {{{"--gloo"},
              "",
              "the native mode of this program, which is the default",
              [](Draft& draft, std::string_view) {
                  draft.is_native = true;
                  return ok();
              }},
             {{"--disable-cache"},
              "",
              "accepted; no check of hosts is cached",
              [](Draft&, std::string_view) { return ok(); }},
             {{"--min-np", "--min-num-proc"}, "N", "elastic: refused in this version", elastic},
             {{"--max-np", "--max-num-proc"}, "N", "", elastic},
             {{"--host-discovery-script"}, "FILE", "", elastic},
             {{"--slots-per-host", "--slots"}, "N", "", elastic},
             {{"--elastic-timeout"}, "SECONDS", "", elastic},
             {{"--reset-limit"}, "N", "", elastic},
             {{"--blacklist-cooldown-range"}, "MIN MAX", "", elastic}}};
}

}  // namespace hvd::launch
