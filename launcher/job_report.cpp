// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_report.hpp"

#include "collectives/base/wall_clock.hpp"
#include "launcher/launch.hpp"
#include "launcher/output/output_file.hpp"
#include "launcher/output/write_all.hpp"
#include "launcher/plan/print.hpp"
#include "launcher/say.hpp"

#include <array>
#include <cstdio>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::string_view kFlag = "--output-filename";
constexpr std::string_view kSummaryName = "summary.json";
constexpr std::string_view kEnvironmentsName = "env.json";
constexpr mode_t kOwnerOnly = 0600;

std::string own_hostname() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string describe_end(int exit_code, double seconds) {
    std::array<char, 64> text{};
    (void)std::snprintf(text.data(), text.size(), "exit code %d after %.1f s", exit_code, seconds);
    return text.data();
}

/// What an earlier job left would be taken for this one's, should that be killed. A link stays, and
/// so does what is no file; what cannot be removed cannot be written later, which is said then.
void remove_old(const std::filesystem::path& path) {
    std::error_code unknown;
    const auto real = std::filesystem::canonical(path, unknown);
    if (!unknown && std::filesystem::is_regular_file(real, unknown)) {
        std::filesystem::remove(real, unknown);
    }
}

/// Else the ranks have no place there either, for which the job is refused.
bool can_write_into(const std::filesystem::path& folder) {
    return ::access(folder.c_str(), W_OK) == 0;
}

}  // namespace

JobReport::JobReport(const LaunchRequest& request) {
    if (request.output_filename && !request.dry_run) {
        open_log(request);
    }
}

Status JobReport::reserve_summary(const LaunchRequest& request) {
    if (request.summary) {
        HVD_TRY(auto reserved, SummaryFile::reserve(*request.summary));
        summary_.emplace(std::move(reserved));
    }
    return ok();
}

void JobReport::open_log(const LaunchRequest& request) {
    std::error_code failure;
    std::filesystem::create_directories(*request.output_filename, failure);
    if (failure) {
        return;  // then the ranks' files are refused, with the reason
    }
    std::error_code unknown;  // then it is shown as it was written
    const auto folder = std::filesystem::absolute(*request.output_filename, unknown);
    folder_ = unknown ? *request.output_filename : folder;
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
    (void)write_all(STDERR_FILENO, print_text(plan));
    log_lines(print_text(plan, {}, Values::hidden));
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

int JobReport::write(JobResult result) {
    // Where output was lost, or no file could be made, the reason was told.
    is_loss_known_ = !result.warnings.empty() || (!log_ && result.ranks.empty());
    if (summary_) {
        if (const auto written = summary_->write(result); !written) {
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
    auto file = SummaryFile::reserve(folder_ / kSummaryName, std::string(kFlag), kOwnerOnly);
    const auto written = file ? file->write(result) : Status(file.error());
    if (!written && !is_loss_known_) {
        say(written.error().message);
    }
    return result.exit_code;
}

}  // namespace hvd::launch
