// SPDX-License-Identifier: Apache-2.0
#include "launcher/timeline/merge_timelines.hpp"

#include "launcher/model/exit_code.hpp"
#include "launcher/output/reserved_file.hpp"
#include "launcher/output/say.hpp"
#include "launcher/output/write_all.hpp"
#include "launcher/timeline/merge_traces.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace hvd::launch {
namespace {

int fail(const Error& error) {
    say_on_stderr("timeline: " + error.message);
    return error.code == Errc::invalid_argument ? kExitUsage : kExitLauncherFailure;
}

/// Refuses to replace an input of the merge.
Status check_output(const std::filesystem::path& output, const std::filesystem::path& folder) {
    std::error_code ignored;
    const auto parent = output.has_parent_path() ? output.parent_path() : ".";
    if (is_trace_name(output.filename().string()) &&
        std::filesystem::equivalent(parent, folder, ignored)) {
        return Error{Errc::invalid_argument,
                     "-o " + output.string() +
                         " has the name of a rank's trace in the folder of these; write another "
                         "name, such as " +
                         (folder / "merged.json").string()};
    }
    return ok();
}

int say_all(const std::vector<std::string>& warnings) {
    for (const auto& warning : warnings) {
        say_on_stderr("timeline: " + warning);
    }
    return 0;
}

int merge_to_stdout(const std::filesystem::path& folder) {
    bool is_closed = false;
    const auto merged = merge_traces(folder, [&](std::string_view text) -> Status {
        const int error = write_all(STDOUT_FILENO, text);
        is_closed = error == EPIPE;
        if (error != 0) {
            auto failure = system_error("standard output", error);
            failure.code = Errc::unavailable;
            return failure;
        }
        return ok();
    });
    if (is_closed) {
        return kExitConsoleClosed;
    }
    return merged ? say_all(*merged) : fail(merged.error());
}

int merge_to_file(const std::filesystem::path& folder, const std::filesystem::path& output) {
    if (const auto status = check_output(output, folder); !status) {
        return fail(status.error());
    }
    auto file = ReservedFile::reserve(output, "-o");
    if (!file) {
        return fail(file.error());
    }
    const auto as_failure = [](Status status) -> Status {
        if (!status) {
            return Error{Errc::unavailable, status.error().message};
        }
        return status;
    };
    const auto merged =
        merge_traces(folder, [&](std::string_view text) { return as_failure(file->append(text)); });
    if (!merged) {
        return fail(merged.error());
    }
    if (const auto status = as_failure(file->finish()); !status) {
        return fail(status.error());
    }
    return say_all(*merged);
}

}  // namespace

int merge_timelines(const MergeTimelines& request) {
    return request.output ? merge_to_file(request.folder, *request.output)
                          : merge_to_stdout(request.folder);
}

}  // namespace hvd::launch
