// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_plan.hpp"

#include "launcher/mpi/launcher_file.hpp"
#include "launcher/report/clock_recorder.hpp"

#include <string>
#include <utility>

#include <unistd.h>

namespace hvd::launch {

Result<int> run_plan(AgentFleet& fleet,
                     JobRunner& runner,
                     const RunStart& start,
                     const LaunchPlan& plan,
                     JobReport& report) {
    report.say_plan(plan);
    HVD_TRY(auto file, LauncherFile::write(plan));
    report.write_environments(plan);
    const auto clocks = ClockRecorder::watch(fleet, plan);
    auto supervised = runner.run(plan, start);
    file.reset();
    if (clocks) {
        clocks->finish([&](const std::string& sentence) { report.say(sentence); });
    }
    if (!supervised) {
        return std::move(supervised).error();
    }
    if (supervised->is_folder_abandoned) {
        report.leave_folder();
    }
    const int exit_code = report.write(std::move(supervised->result));
    if (supervised->is_console_abandoned || supervised->is_folder_abandoned) {
        ::_exit(exit_code);  // a thread is blocked in a write that may never end
    }
    return exit_code;
}

}  // namespace hvd::launch
