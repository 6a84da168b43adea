// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/output/reserved_file.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/start_failure.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::launch {

/// horovodrun's own output: standard error, --summary, and launcher.log, env.json
/// and summary.json beside the files of the ranks. A failed write is reported once and
/// harms no job. Thread: io.
class JobReport final {
public:
    explicit JobReport(const LaunchRequest& request);

    JobReport(const JobReport&) = delete;
    JobReport& operator=(const JobReport&) = delete;
    ~JobReport() = default;

    /// Errors: invalid_argument, where --summary cannot be written.
    [[nodiscard]] Status reserve_summary(const LaunchRequest& request);

    /// A sentence; the program's name is put in front.
    void say(const std::string& sentence);

    /// --verbose: prints the whole plan as text and names the folder; the log leaves out values
    /// that may be secret.
    void say_plan(const LaunchPlan& plan);

    /// With what the ranks run, to env.json.
    void write_environments(const LaunchPlan& plan);

    /// Writes nothing more to the folder, which may take nothing for good.
    void leave_folder() noexcept { folder_.clear(); }

    /// How a job ended that never had a rank; says so.
    [[nodiscard]] int write(const StartFailure& failure);

    /// Writes the job's result and returns the exit code: a success whose --summary cannot be
    /// written is a failure.
    [[nodiscard]] int write(JobResult result);

    /// The log that gets a copy of horovodrun's own lines in the job's output; null: none.
    [[nodiscard]] LauncherLog* log() noexcept { return log_.get(); }

private:
    void open_log(const LaunchRequest& request);
    void log(const std::string& sentence);
    [[nodiscard]] double seconds_of(const JobResult& result) const;
    void log_lines(std::string_view text);

    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::optional<ReservedFile> summary_;
    std::filesystem::path folder_;
    std::unique_ptr<LauncherLog> log_;
    bool is_loss_known_ = false;
    bool is_verbose_;
};

}  // namespace hvd::launch
