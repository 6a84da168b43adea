// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/exit_reason.hpp"

namespace hvd::launch::agent {

int ExitReason::exit_code() const {
    constexpr int kSignalBase = 128;
    constexpr int kLauncherLost = 125;
    if (stop_signal != 0) {
        return kSignalBase + stop_signal;
    }
    return job_end ? job_end->exit_code : kLauncherLost;
}

std::string ExitReason::text() const {
    if (stop_signal != 0) {
        return "left the job, asked by signal " + std::to_string(stop_signal);
    }
    if (job_end) {
        return "the job has ended with exit code " + std::to_string(job_end->exit_code) +
               (job_end->text.empty() ? "" : ": " + job_end->text);
    }
    return "horovodrun has gone; the ranks of this host were ended";
}

}  // namespace hvd::launch::agent
