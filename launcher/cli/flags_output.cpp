// SPDX-License-Identifier: Apache-2.0
//
// What becomes of the ranks' standard streams, and what is said about the job.
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

namespace hvd::launch {
namespace {

Error wrong(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

Status set_stdin(Draft& draft, std::string_view value) {
    draft.request.stdin_all = value == "all";
    draft.request.stdin_rank = std::nullopt;
    if (draft.request.stdin_all) {
        return ok();
    }
    const auto rank = whole_number(value, 0, std::numeric_limits<int>::max());
    if (!rank) {
        return wrong("must be the number of a rank, or all");
    }
    draft.request.stdin_rank = *rank;
    return ok();
}

Status set_show(Draft& draft, std::string_view value) {
    auto ranks = parse_ranges(value);
    if (!ranks) {
        return wrong("must be ranks, such as 0,2-4");
    }
    draft.request.show = std::move(*ranks);
    return ok();
}

Status set_error_lines(Draft& draft, std::string_view value) {
    constexpr int kMost = 1000;
    HVD_TRY(draft.request.error_lines, whole_number(value, 0, kMost));
    return ok();
}

Status set_prefix(Draft& draft, std::string_view value) {
    HVD_TRY(draft.request.prefix, LinePrefix::parse(value));
    return ok();
}

std::function<Status(Draft&, std::string_view)> set_path(
    std::optional<std::filesystem::path> LaunchRequest::*place,
    const char* missing) {
    return [=](Draft& draft, std::string_view value) -> Status {
        if (value.empty()) {
            return wrong(missing);
        }
        draft.request.*place = value;
        return ok();
    };
}

}  // namespace

FlagSection output_flags() {
    return {"Input and output",
            {{{"--output-filename"},
              "DIR",
              "also write what each rank prints to DIR/rank.N/stdout and DIR/rank.N/stderr, what "
              "horovodrun says to DIR/launcher.log, the environments of the ranks to DIR/env.json "
              "(without what may be secret), and how the job ended to DIR/summary.json",
              set_path(&LaunchRequest::output_filename, "a directory is missing")},
             {{"-prefix-timestamp", "--prefix-output-with-timestamp"},
              "",
              "begin each line with the time at which the rank wrote it (UTC)",
              [](Draft& draft, std::string_view) {
                  draft.request.prefix_timestamp = true;
                  return ok();
              }},
             {{"--prefix"},
              "TEMPLATE",
              "what begins each line on the console instead of [RANK]<STREAM>: - text with {rank}, "
              "{host}, {local_rank}, {stream} and {time} (UTC), such as '[{rank} {host}] '; none "
              "for nothing",
              set_prefix},
             {{"--show"}, "RANKS", "print the output of these ranks only, such as 0,2-4", set_show},
             {{"--stdin"},
              "RANK|all",
              "who reads the standard input of horovodrun; the other ranks read /dev/null, and so "
              "do all without this flag",
              set_stdin},
             {{"--summary"},
              "FILE",
              "write how the job ended, as JSON",
              set_path(&LaunchRequest::summary, "a file name is missing")},
             {{"--error-lines"},
              "N",
              "how many of the last lines of the culprit's standard error the report of a failure "
              "repeats, 0 to 1000 (default: 20), and at most 64 KiB of them",
              set_error_lines},
             {{"--launch-trace"},
              "FILE",
              "write where the time of the start went, host by host, as trace events (JSON) for "
              "ui.perfetto.dev; with --verbose its critical path is said too",
              set_path(&LaunchRequest::launch_trace, "a file name is missing")},
             {{"--verbose"}, "", "say what horovodrun does", [](Draft& draft, std::string_view) {
                  draft.request.verbose = true;
                  return ok();
              }}}};
}

}  // namespace hvd::launch
