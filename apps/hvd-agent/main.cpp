// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/shim.hpp"
#include "launcher/agent/lifecycle/agent.hpp"
#include "launcher/agent/lifecycle/guard.hpp"
#include "launcher/agent/lifecycle/join.hpp"
#include "launcher/agent/lifecycle/private_folder.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace {

constexpr int kUsage = 2;

constexpr std::string_view kByHand =
    "hvd-agent: horovodrun starts this program on every host of a job and talks to it over its\n"
    "standard input and output, or dials it with --join, which `horovodrun --join` executes.\n"
    "There is nothing to do by hand; try `horovodrun --help`.\n";

void print(std::FILE* stream, std::string_view text) {
    (void)std::fwrite(text.data(), 1, text.size(), stream);
}

int join(const std::vector<std::string_view>& arguments) {
    const auto order = hvd::launch::agent::parse_join_options(arguments);
    if (!order) {
        hvd::launch::agent::print_error(order.error().message);
        return kUsage;
    }
    return hvd::launch::agent::run_joined_agent(*order);
}

/// The bootstrap names the folders that it found this program in, and trusts no others.
bool is_trusted(std::span<char*> folders) {
    return std::ranges::all_of(folders, hvd::launch::agent::is_private_folder);
}

/// Whether what the bootstrap found is the agent of this build: its folder is named after it. What
/// lies there by mistake leaves the place to the one that belongs there.
bool is_of_this_build(std::string_view folder) {
    const auto name = folder.substr(folder.rfind('/') + 1);
    return name.starts_with(hvd::launch::wire::build_id());
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
    if (argc > 1 && std::string_view(arguments[1]) == "--version") {
        if (!is_trusted(arguments.subspan(2))) {
            return kUsage;
        }
        print(stdout, hvd::launch::wire::build_id());
        print(stdout, "\n");
        return 0;
    }
    if (argc > 1 && std::string_view(arguments[1]) == "--join") {
        return join({arguments.begin() + 1, arguments.end()});
    }
    if (argc > 3 && std::string_view(arguments[1]) == "exec" &&
        std::string_view(arguments[2]) == "--") {
        return hvd::launch::agent::run_shim(arguments.subspan(3));
    }
    if (argc > 2 && std::string_view(arguments[1]) == "--found-in") {
        if (!is_trusted(arguments.subspan(2)) || !is_of_this_build(arguments.back())) {
            return kUsage;
        }
    } else if (argc > 1 || ::isatty(STDIN_FILENO) != 0 || ::isatty(STDOUT_FILENO) != 0) {
        print(stderr, kByHand);
        return kUsage;
    }
    return hvd::launch::agent::run_guarded_agent(STDIN_FILENO, STDOUT_FILENO);
}
