// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/exit_reason.hpp"

#include "collectives/base/text.hpp"
#include "launcher/model/exit_code.hpp"

namespace hvd::launch::agent {

int ExitReason::exit_code() const {
    if (stop_signal != 0) {
        return exit_code_of_signal(stop_signal);
    }
    return job_end ? job_end->exit_code : kExitLauncherFailure;
}

std::string ExitReason::text() const {
    if (stop_signal != 0) {
        return "left the job, asked by " + signal_name(stop_signal);
    }
    if (job_end) {
        return "the job has ended with exit code " + std::to_string(job_end->exit_code) +
               (job_end->text.empty() ? "" : ": " + job_end->text);
    }
    return "horovodrun has gone; the ranks of this host were ended";
}

}  // namespace hvd::launch::agent
