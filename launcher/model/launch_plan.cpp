// SPDX-License-Identifier: Apache-2.0
#include "launcher/model/launch_plan.hpp"

#include <utility>

namespace hvd::launch {

// `insert` and `merge` keep what is there, so the narrowest comes first.

Environment common_environment(const JobPlan& job, const HostPlan& host) {
    JobPlan own_job{.id = {}, .env = job.env, .ranks_env = job.ranks_env};
    HostPlan own_host;
    own_host.env = host.env;
    own_host.ranks_env = host.ranks_env;
    return take_common_environment(own_job, own_host);
}

Environment take_common_environment(JobPlan& job, HostPlan& host) {
    auto environment = std::exchange(host.ranks_env, {});
    for (auto* wider : {&job.ranks_env, &host.env, &job.env}) {
        environment.merge(std::exchange(*wider, {}));
    }
    return environment;
}

const std::string& cwd_of(const JobPlan& job, const ProcessSpec& rank) noexcept {
    return rank.cwd.empty() ? job.cwd : rank.cwd;
}

const std::vector<std::string>& argv_of(const JobPlan& job, const ProcessSpec& rank) noexcept {
    return rank.argv.empty() ? job.argv : rank.argv;
}

Environment added_environment(const JobPlan& job, const HostPlan& host, const ProcessSpec& rank) {
    Environment environment = rank.env;
    environment.insert(host.ranks_env.begin(), host.ranks_env.end());
    environment.insert(job.ranks_env.begin(), job.ranks_env.end());
    return environment;
}

}  // namespace hvd::launch
