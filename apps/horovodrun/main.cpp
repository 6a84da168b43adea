// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/env.hpp"
#include "collectives/base/error.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/doctor/check_build.hpp"
#include "launcher/doctor/examine.hpp"
#include "launcher/external/under_launcher.hpp"
#include "launcher/launch.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/output/say.hpp"
#include "launcher/remote/join/join_node.hpp"
#include "launcher/timeline/merge_timelines.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

namespace {

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): the program of this namespace

/// Hands each kind of command line to the folder that does it.
struct Dispatch {
    int operator()(const LaunchRequest& request) const { return run(request); }
    int operator()(const PrintAndExit& page) const { return print_page(page.text); }
    int operator()(const CheckBuild& request) const { return check_build(request); }
    int operator()(const Examine& request) const { return examine(request); }
    int operator()(const MergeTimelines& request) const { return merge_timelines(request); }
    int operator()(const JoinRequest& request) const { return join(request); }
    int operator()(const RunTask& request) const { return run_task(request); }
    int operator()(const RunLine& request) const { return run_line(request); }
};

int run_program(const std::vector<std::string>& arguments) {
    open_missing_descriptors();
    const auto parsed =
        parse_command_line(arguments, hvd::current_environment(), terminal_columns());
    if (!parsed) {
        (void)std::fprintf(stderr, "horovodrun: %s\n", parsed.error().message.c_str());
        const bool has_page =
            !arguments.empty() && (arguments.front() == kTimeline || arguments.front() == kDoctor);
        if (parsed.error().code == hvd::Errc::invalid_argument) {
            (void)std::fprintf(stderr, "Try 'horovodrun %s--help'.\n",
                               has_page ? (arguments.front() + " ").c_str() : "");
        }
        return kExitUsage;
    }
    return std::visit(Dispatch{}, *parsed);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_program({argv + 1, argv + argc});
    } catch (const hvd::Exception& error) {
        const bool is_ours = error.error().code == hvd::Errc::internal;
        (void)std::fprintf(stderr, "horovodrun: %s%s\n", is_ours ? "internal error: " : "",
                           error.what());
        return kExitLauncherFailure;
    } catch (const std::exception& error) {
        (void)std::fprintf(stderr, "horovodrun: internal error: %s\n", error.what());
        return kExitLauncherFailure;
    }
}
