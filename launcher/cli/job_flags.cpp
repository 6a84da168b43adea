// SPDX-License-Identifier: Apache-2.0
//
// Flags about the job as a whole: its size, its plan, its time and its end.
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

namespace hvd::launch {
namespace {

constexpr int kMaxRanks = 1 << 20;

Status set_output_format(Draft& draft, std::string_view value) {
    if (value != "text" && value != "json") {
        return wrong("must be text or json");
    }
    draft.request.dry_run.format = value == "json" ? OutputFormat::json : OutputFormat::text;
    draft.output_format_given = true;
    return ok();
}

Status set_timeout(Draft& draft, std::string_view value) {
    HVD_TRY(const auto limit, seconds(value, 0));
    if (limit.count() == 0) {
        return wrong("must be more than 0 seconds");
    }
    draft.request.limits.timeout = limit;
    return ok();
}

Status set_on_failure(Draft& draft, std::string_view value) {
    if (value != "stop" && value != "wait") {
        return wrong("must be stop (the first failure ends the job) or wait (the others go on)");
    }
    draft.request.limits.on_failure = value == "wait" ? OnFailure::wait : OnFailure::stop;
    return ok();
}

constexpr std::array kJobFlags{
    flag("-np, -n, --num-proc N",
         "how many processes (ranks) to start",
         [](Draft& draft, std::string_view value) -> Status {
             HVD_TRY(draft.request.processes, whole_number(value, 1, kMaxRanks));
             return ok();
         },
         {.brief = "how many ranks to start"}),
    flag("--config-file FILE",
         "settings in YAML; flags win over it wherever they stand",
         [](Draft& draft, std::string_view value) {
             return set_path_once(draft.config_file, value);
         },
         {.brief = "settings in YAML", .places = in_job | in_doctor | in_task}),
    flag("--dry-run",
         "print the plan and the commands that started the agents, and start no rank",
         set_value<&LaunchRequest::dry_run, &DryRunOptions::is_wanted, true>,
         {.brief = "print the plan, start no rank", .places = in_job}),
    flag("--output-format text|json",
         "form of the plan that --dry-run prints",
         set_output_format,
         {.standard = "text", .places = in_job}),
    flag("--facts FILE",
         "with --dry-run: plan for the hosts described in this JSON file, start nothing",
         [](Draft& draft, std::string_view value) {
             return set_path_once(draft.request.dry_run.facts_file, value);
         },
         {.places = in_job}),
};

constexpr std::array kTimeFlags{
    flag(
        "--start-timeout SECONDS",
        "give up when not every rank has started by then (default HOROVOD_START_TIMEOUT, "
        "else 30, and 0.1 for each host beyond 64, and 5 for each time that "
        "--ssh-concurrency is used up)",
        [](Draft& draft, std::string_view value) -> Status {
            HVD_TRY(draft.start_timeout, seconds(value, 0));
            return ok();
        },
        {.brief = "time limit for the start of all ranks", .places = in_job | in_doctor | in_join}),
    flag("--timeout SECONDS",
         "end the whole job after this time, with exit code 124",
         set_timeout,
         {.brief = "time limit for the whole job", .places = in_job}),
};

constexpr std::array kFailureFlags{
    flag("--on-failure stop|wait",
         "stop: the first rank that fails ends the job; wait: the others go on",
         set_on_failure,
         {.standard = "stop", .places = in_job}),
    flag("--lease SECONDS",
         "a host that is silent for so long is lost",
         set_seconds<&LaunchRequest::limits, &Limits::lease, 1>,
         {.standard = "30", .places = in_job}),
    flag("--exit-timeout SECONDS",
         "end the job when ranks still run so long after the first one ended well",
         set_seconds<&LaunchRequest::limits, &Limits::exit_timeout, 0>,
         {.places = in_job}),
    flag("--grace SECONDS",
         "time between asking ranks to stop (SIGTERM) and killing them",
         set_seconds<&LaunchRequest::limits, &Limits::grace, 0>,
         {.standard = "10", .places = in_job}),
};

constexpr std::array kJobGroups{FlagGroup{"Job", kJobFlags}};
constexpr std::array kLimitGroups{FlagGroup{"Time limits", kTimeFlags},
                                  FlagGroup{"When something fails", kFailureFlags}};

}  // namespace

std::span<const FlagGroup> job_flags() noexcept {
    return kJobGroups;
}

std::span<const FlagGroup> limit_flags() noexcept {
    return kLimitGroups;
}

}  // namespace hvd::launch
