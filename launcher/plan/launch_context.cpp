// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/launch_context.hpp"

#include "collectives/base/random_id.hpp"
#include "launcher/plan/facts_file.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace hvd::launch {

Result<LaunchContext> make_launch_context() {
    std::error_code failure;
    const auto directory = std::filesystem::current_path(failure);
    if (failure) {
        return Error{Errc::invalid_argument,
                     system_error("the current directory", failure.value()).message};
    }
    HVD_TRY(auto job_id, random_id());
    return LaunchContext{.cwd = directory.string(),
                         .job_id = std::move(job_id),
                         .environment = current_environment()};
}

Result<Planned> plan_offline(const LaunchRequest& request) {
    HVD_TRY(const auto facts, read_facts_file(*request.dry_run.facts_file));
    HVD_TRY(const auto hosts, describe_hosts(request.hosts.list, facts));
    HVD_TRY(const auto context, make_launch_context());
    return make_plan(request, context, hosts);
}

}  // namespace hvd::launch
