// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/housekeeping.hpp"

namespace hvd::launch::agent {

void Housekeeping::time_passed(TimePoint now, const std::optional<JobCgroup>& cgroup) {
    if (!due_ || now < *due_) {
        return;
    }
    due_.reset();
    oom_.start_log();
    build_.remove_old();
    if (cgroup) {
        oom_.narrow_to(cgroup->path() + "/memory.events");
        cgroup->remove_abandoned();
    }
}

}  // namespace hvd::launch::agent
