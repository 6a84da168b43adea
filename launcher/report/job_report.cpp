// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/job_report.hpp"

#include "collectives/base/wall_clock.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/output/output_file.hpp"
#include "launcher/output/say.hpp"
#include "launcher/output/write_all.hpp"
#include "launcher/plan/print.hpp"

#include <array>
#include <cstdio>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::string_view kSummaryName = "summary.json";
constexpr std::string_view kEnvironmentsName = "env.json";

std::string own_hostname() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string describe_end(int exit_code, double seconds) {
    std::array<char, 64> text{};
    (void)std::snprintf(text.data(), text.size(), "exit code %d after %.1f s", exit_code, seconds);
    return text.data();
}

/// A file of an earlier job would be taken for this one's, should this job be killed. Of a symbolic
/// link to a file the link goes. A file that cannot be removed cannot be written later, which is
/// said then.
void remove_old(const std::filesystem::path& path) {
    std::error_code unknown;
    if (std::filesystem::is_regular_file(path, unknown)) {
        std::filesystem::remove(path, unknown);
    }
}

/// Else the ranks have no place there either, for which the job is refused.
bool can_write_into(const std::filesystem::path& folder) {
    return ::access(folder.c_str(), W_OK) == 0;
}

}  // namespace

JobReport::JobReport(const LaunchRequest& request) : is_verbose_(request.report.is_verbose) {
    if (request.output.folder && !request.dry_run.is_wanted) {
        open_log(request);
    }
}

Status JobReport::reserve_summary(const LaunchRequest& request) {
    if (request.report.summary) {
        HVD_TRY(auto reserved, ReservedFile::reserve(*request.report.summary));
        summary_.emplace(std::move(reserved));
    }
    return ok();
}

void JobReport::open_log(const LaunchRequest& request) {
    std::error_code failure;
    std::filesystem::create_directories(*request.output.folder, failure);
    if (failure) {
        return;  // then the ranks' files are refused, with the reason
    }
    std::error_code unknown;  // then it is shown as it was written
    const auto folder = std::filesystem::absolute(*request.output.folder, unknown);
    folder_ = unknown ? *request.output.folder : folder;
    remove_old(folder_ / kSummaryName);
    remove_old(folder_ / kEnvironmentsName);
    auto opened = LauncherLog::create(folder_);
    if (!opened) {
        say(opened.error().message +
            (can_write_into(folder_) ? "; the job goes on without it" : ""));
        return;
    }
    log_ = std::move(*opened);
    log("process " + std::to_string(::getpid()) + " on " + own_hostname() +
        " starts: " + print_command(request.command, Values::hidden));
}

void JobReport::say(const std::string& sentence) {
    say_on_stderr(sentence);
    log(sentence);
}

void JobReport::say_plan(const LaunchPlan& plan) {
    if (!is_verbose_) {
        return;
    }
    (void)write_all(STDERR_FILENO, print_text(plan));
    log_lines(print_text(plan, {}, Values::hidden));
    if (!folder_.empty()) {
        say("what the ranks print, launcher.log, env.json and summary.json are in " +
            folder_.string());
    }
}

void JobReport::write_environments(const LaunchPlan& plan) {
    if (folder_.empty() || (!log_ && !can_write_into(folder_))) {
        return;
    }
    const auto path = folder_ / kEnvironmentsName;
    const auto fd = open_private_output_file(path, 0);
    const int error =
        fd ? write_all(fd->get(), print_environments(plan, current_environment())) : 0;
    if (!fd || error != 0) {
        say((fd ? cannot_write(path, error) : fd.error()).message + "; the job goes on without it");
    }
}

void JobReport::log(const std::string& sentence) {
    log_lines("horovodrun: " + sentence + "\n");
}

void JobReport::log_lines(std::string_view text) {
    const bool has_place = log_ && !folder_.empty();
    const auto written = has_place ? log_->write(wall_clock_ns(), text) : ok();
    if (!written && !is_loss_known_) {
        say_on_stderr(written.error().message + "; the rest of it is lost, the job goes on");
    }
}

double JobReport::seconds_of(const JobResult& result) const {
    if (!result.ranks.empty()) {
        return result.seconds;
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

int JobReport::write(const StartFailure& failure) {
    for (const auto& sentence : failure.words) {
        say(sentence);
    }
    return write(failure.result);
}

int JobReport::write(JobResult result) {
    // The reason was told before where output was lost, or no file could be made.
    const bool is_output_lost = !result.warnings.empty();
    is_loss_known_ = is_output_lost || (!log_ && result.ranks.empty());
    if (summary_) {
        if (const auto written = summary_->write(format_summary(result)); !written) {
            say(written.error().message);
            result.warnings.push_back(written.error().message);
            if (result.is_success()) {
                result.exit_code = kExitLauncherFailure;
            }
        }
    }
    if (folder_.empty()) {
        return result.exit_code;
    }
    log(describe_end(result.exit_code, seconds_of(result)));
    // As the log: it has the line that started the ranks.
    const auto path = folder_ / kSummaryName;
    auto file = ReservedFile::reserve_private(path);
    const auto written = file ? file->write(format_summary(result)) : Status(file.error());
    if (!written && is_output_lost) {
        say("--output-filename: " + path.string() +
            " cannot be written either; --summary FILE may name another place");
    } else if (!written && !is_loss_known_) {
        say(written.error().message);
    }
    return result.exit_code;
}

}  // namespace hvd::launch
