// SPDX-License-Identifier: Apache-2.0
//
// Simulated hosts on one machine, for tests; the Python library beside this file runs it. Whoever
// started it may die in any way: the hosts die too.
#include "tests/support/hosts/calls.hpp"
#include "tests/support/hosts/enter.hpp"
#include "tests/support/hosts/host.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace hvd::test {

void die_with_parent() {
    check(::prctl(PR_SET_PDEATHSIG, SIGKILL), "parent-death signal");
}

namespace {

constexpr const char* kUsage =
    "usage: test_host switch                        a network namespace, until it is killed\n"
    "       test_host up FILE                       a host as FILE describes it\n"
    "       test_host enter PID all|net UID FOLDER COMMAND...\n"
    "                                               a command in the host of that PID 1\n";

int run(std::span<char*> arguments) {
    const std::string_view mode = arguments.size() > 1 ? arguments[1] : "";
    if (mode == "switch" && arguments.size() == 2) {
        die_with_parent();
        check(::unshare(CLONE_NEWNET), "a network namespace");
        check(::write(STDOUT_FILENO, "ready\n", 6), "standard output");
        while (true) {
            ::pause();
        }
    }
    if (mode == "up" && arguments.size() == 3) {
        return run_host(arguments[2]);
    }
    if (mode == "enter" && arguments.size() > 6) {
        return run_inside(arguments.subspan(2));
    }
    std::fputs(kUsage, stderr);
    return 2;
}

}  // namespace
}  // namespace hvd::test

int main(int argc, char** argv) {
    try {
        return hvd::test::run(std::span(argv, static_cast<std::size_t>(argc)));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "test_host: %s\n", error.what());
        return 125;
    }
}
