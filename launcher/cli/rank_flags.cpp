// SPDX-License-Identifier: Apache-2.0
//
// Flags about the ranks: their CPUs and GPUs, environment and standard streams.
#include "collectives/base/text.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <limits>
#include <utility>

namespace hvd::launch {
namespace {

Status set_environment(Draft& draft, std::string_view value) {
    const auto equals = value.find('=');
    const auto name = std::string(value.substr(0, equals));
    if (name.empty()) {
        return wrong("write NAME=VALUE");
    }
    if (equals != std::string_view::npos) {
        draft.request.environment.set[name] = value.substr(equals + 1);
        return ok();
    }
    const auto own = find(draft.environment, name);
    if (!own) {
        return wrong(name + " is not set here; write " + name + "=VALUE");
    }
    draft.request.environment.set[name] = *own;
    return ok();
}

Status set_gpu_bind(Draft& draft, std::string_view value) {
    if (value == "index") {
        draft.request.binding.gpus = GpuBind::index;
    } else if (value == "env") {
        draft.request.binding.gpus = GpuBind::env;
    } else if (value == "none") {
        draft.request.binding.gpus = GpuBind::none;
    } else {
        return wrong(
            "must be index (all GPUs visible, a rank uses its own), env (only its own "
            "is visible) or none");
    }
    return ok();
}

Status set_stdin(Draft& draft, std::string_view value) {
    draft.request.input.is_for_all = value == "all";
    draft.request.input.rank = std::nullopt;
    if (draft.request.input.is_for_all) {
        return ok();
    }
    const auto rank = whole_number(value, 0, std::numeric_limits<int>::max());
    if (!rank) {
        return wrong("must be the number of a rank, or all");
    }
    draft.request.input.rank = *rank;
    return ok();
}

Status set_pty(Draft& draft, std::string_view value) {
    const auto rank = whole_number(value, 0, std::numeric_limits<int>::max());
    if (!rank) {
        return wrong("must be the number of a rank");
    }
    draft.request.input.terminal_rank = *rank;
    return ok();
}

Status set_bind_to(Draft& draft, std::string_view value) {
    if (value != "share" && value != "none") {
        return wrong("must be share (each rank gets an even share of the CPUs) or none");
    }
    draft.request.binding.cpus = value == "none" ? BindTo::none : BindTo::share;
    return ok();
}

Status add_env_pass(Draft& draft, std::string_view value) {
    if (value.empty() || value.find('=') != std::string_view::npos) {
        return wrong("must be a name or a pattern, such as NCCL_*");
    }
    draft.request.environment.pass.emplace_back(value);
    return ok();
}

template <std::optional<std::vector<int>> OutputOptions::*kRanks>
Status set_ranks(Draft& draft, std::string_view value) {
    auto ranks = parse_ranges(value);
    if (!ranks) {
        return wrong("must be ranks, such as 0,2-4");
    }
    draft.request.output.*kRanks = std::move(*ranks);
    return ok();
}

constexpr std::array kPlacementFlags{
    flag("--bind-to share|none",
         "share: pin each rank to an even share of the CPUs, near its GPU; none: leave the "
         "affinity alone",
         set_bind_to,
         {.brief = "pin each rank to a share of the CPUs, or not",
          .standard = "share",
          .places = in_job | in_doctor | in_task}),
    flag("--gpu-bind index|env|none",
         "index: a rank sees all allowed GPUs and owns number local_rank; env: it sees only "
         "its own; none: GPUs are left alone",
         set_gpu_bind,
         {.standard = "index", .places = in_job | in_doctor | in_task}),
    flag(
        "--gpus-per-rank N",
        "how many GPUs each rank owns; a host without GPUs is refused then (default: 1 where there "
        "are GPUs; in Slurm its --gpus-per-task)",
        [](Draft& draft, std::string_view value) -> Status {
            HVD_TRY(draft.request.binding.gpus_per_rank, whole_number(value, 1, 1024));
            draft.request.binding.may_lack_gpus = false;
            return ok();
        },
        {.places = in_job | in_doctor | in_task}),
    flag("--share-gpus",
         "let several ranks use one GPU",
         set_value<&LaunchRequest::binding, &BindingOptions::share_gpus, true>,
         {.places = in_job | in_doctor | in_task}),
};

constexpr std::array kEnvironmentFlags{
    flag("--env NAME[=VALUE]",
         "set a variable; without =VALUE to the value it has here. May be repeated; wins "
         "over everything else",
         set_environment,
         {.brief = "set a variable of the ranks", .places = in_job | in_doctor | in_task}),
    flag("--env-pass GLOB",
         "pass on the variables whose names match, such as 'NCCL_*', also with --env-clean, "
         "and to other hosts what would stay here, such as HOME. May be repeated",
         add_env_pass),
    flag("--env-clean",
         "pass on nothing but --env, --env-pass and what horovodrun itself sets",
         set_value<&LaunchRequest::environment, &EnvironmentOptions::is_clean, true>),
};

constexpr std::array kOutputFlags{
    flag("--output-filename DIR",
         "also write the output of each rank to DIR/rank.N/stdout and DIR/rank.N/stderr, "
         "the messages of horovodrun to DIR/launcher.log, the environments of the ranks to "
         "DIR/env.json (without possible secrets), and the end of the job to "
         "DIR/summary.json",
         [](Draft& draft, std::string_view value) {
             return set_path(draft.request.output.folder, value, "a directory");
         },
         {.brief = "write the output of each rank to files, too", .places = in_job}),
    flag("-prefix-timestamp, --prefix-output-with-timestamp",
         "begin each line with the time at which the rank wrote it (UTC)",
         [](Draft& draft, std::string_view) {
             draft.prefix_timestamp = true;
             return ok();
         },
         {.places = in_job}),
    flag("--prefix TEMPLATE",
         "begin each line on the console with this instead of [RANK]<STREAM>: - text with "
         "{rank}, {host}, {local_rank}, {stream} and {time} (UTC), such as {rank}@{host}:; "
         "none for nothing",
         [](Draft& draft, std::string_view value) -> Status {
             HVD_TRY(draft.prefix, LinePrefix::parse(value));
             return ok();
         },
         {.places = in_job}),
    flag("--show RANKS",
         "print the output of these ranks only, such as 0,2-4",
         set_ranks<&OutputOptions::show>,
         {.places = in_job}),
    flag("--progress-bars RANKS",
         "print the progress bars of these ranks as they move, such as 0; of the other ranks "
         "only the last state of a bar. A bar is text that a carriage return ends",
         set_ranks<&OutputOptions::bars>,
         {.places = in_job}),
    flag("--stdin RANK|all",
         "give horovodrun's standard input to this rank or to all; the other ranks read "
         "/dev/null, and so do all without this flag",
         set_stdin,
         {.places = in_job}),
    flag("--pty RANK",
         "give this rank a terminal, as a debugger or a shell needs it: it reads each key, Ctrl-C "
         "too, and prints without a prefix. horovodrun itself must run in a terminal",
         set_pty,
         {.places = in_job}),
    flag("--summary FILE",
         "write how the job ended, as JSON",
         set_file<&LaunchRequest::report, &ReportOptions::summary>,
         {.brief = "write how the job ended, as JSON", .places = in_job}),
    flag("--error-lines N",
         "how many of the last lines of the culprit's standard error the report of a "
         "failure repeats, 0 to 1000, and at most 64 KiB of them",
         [](Draft& draft, std::string_view value) -> Status {
             constexpr int kMost = 1000;
             HVD_TRY(draft.request.report.error_lines, whole_number(value, 0, kMost));
             return ok();
         },
         {.standard = "20", .places = in_job}),
    flag("--launch-trace FILE",
         "write where the time of the start went, host by host, as trace events (JSON) for "
         "ui.perfetto.dev; with --verbose its critical path is printed, too",
         set_file<&LaunchRequest::report, &ReportOptions::launch_trace>,
         {.places = in_job}),
    flag("--verbose",
         "print what horovodrun does",
         set_value<&LaunchRequest::report, &ReportOptions::is_verbose, true>,
         {.brief = "print what horovodrun does", .places = in_job | in_doctor | in_task}),
};

constexpr std::array kGroups{FlagGroup{"CPUs and GPUs", kPlacementFlags},
                             FlagGroup{"Environment of the ranks", kEnvironmentFlags},
                             FlagGroup{"Input and output", kOutputFlags}};

}  // namespace

std::span<const FlagGroup> rank_flags() noexcept {
    return kGroups;
}

}  // namespace hvd::launch
