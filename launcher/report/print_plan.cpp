// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/print_plan.hpp"

#include "launcher/model/exit_code.hpp"
#include "launcher/output/say.hpp"
#include "launcher/plan/launch_context.hpp"

#include <algorithm>

namespace hvd::launch {

int print_plan(const DryRunOptions& options,
               const LaunchPlan& plan,
               std::span<const AgentWay> agents) {
    return print_page(options.format == OutputFormat::json ? print_json(plan, agents)
                                                           : print_text(plan, agents));
}

int print_offline_plan(const LaunchRequest& request) {
    const auto planned = plan_offline(request);
    if (!planned) {
        say_on_stderr(planned.error().message);
        return kExitUsage;
    }
    std::ranges::for_each(planned->warnings, say_on_stderr);
    return print_plan(request.dry_run, planned->plan);
}

}  // namespace hvd::launch
