// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/env.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/examine.hpp"
#include "launcher/launch.hpp"
#include "launcher/merge_timelines.hpp"
#include "launcher/under_launcher.hpp"

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): the program of this namespace

int run_parsed(const LaunchRequest& request, EarlyAgentPtr early_agent) {
    return run(request, std::move(early_agent));
}

int run_parsed(const PrintAndExit& page, EarlyAgentPtr /*unused*/) {
    return print_page(page.text);
}

int run_parsed(const CheckBuild& request, EarlyAgentPtr /*unused*/) {
    return check_build(request);
}

int run_parsed(const Examine& request, EarlyAgentPtr early_agent) {
    return examine(request, std::move(early_agent));
}

int run_parsed(const MergeTimelines& request, EarlyAgentPtr /*unused*/) {
    return merge_timelines(request);
}

int run_parsed(const JoinRequest& request, EarlyAgentPtr /*unused*/) {
    return join(request);
}

int run_parsed(const RunTask& request, EarlyAgentPtr early_agent) {
    early_agent.reset();
    return run_task(request);
}

int run_parsed(const RunLine& request, EarlyAgentPtr early_agent) {
    early_agent.reset();
    return run_line(request);
}

int run_program(std::span<char*> argv) {
    auto early_agent = make_head_start(argv);
    const std::vector<std::string> arguments(argv.begin() + 1, argv.end());
    const auto parsed = parse_command_line(arguments, hvd::current_environment());
    if (!parsed) {
        const bool is_timeline = !arguments.empty() && arguments.front() == kTimeline;
        (void)std::fprintf(stderr, "horovodrun: %s\nTry 'horovodrun %s--help'.\n",
                           parsed.error().message.c_str(), is_timeline ? "timeline " : "");
        return kExitUsage;
    }
    return std::visit(
        [&](const auto& request) { return run_parsed(request, std::move(early_agent)); }, *parsed);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_program({argv, static_cast<std::size_t>(argc)});
    } catch (const std::exception& error) {
        (void)std::fprintf(stderr, "horovodrun: internal error: %s\n", error.what());
        return kExitLauncherFailure;
    }
}
