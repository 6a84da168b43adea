// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/preflight.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>
#include <vector>

using hvd::launch::HostPlan;
using hvd::launch::agent::find_problems;

namespace {

HostPlan plan(const std::string& program, const std::string& cwd) {
    HostPlan plan;
    plan.env = {{"PATH", "/usr/bin:/bin"}};
    plan.ranks.resize(1);
    plan.ranks.front().argv = {program};
    plan.ranks.front().cwd = cwd;
    return plan;
}

}  // namespace

TEST_CASE("a host that can run its ranks has no problem") {
    CHECK(find_problems({}, plan("sh", "/"), 64).empty());
    CHECK(find_problems({}, plan("/bin/sh", "/tmp"), 64).empty());
    CHECK(find_problems({}, {}, 64).empty());  // it has no rank
}

TEST_CASE("what would keep ranks from running is told with its remedy") {
    struct Example {
        HostPlan plan;
        int exit_code;
        std::string text;
    };
    const auto& example = GENERATE(values<Example>({
        {plan("no-such-program", "/"), 127,
         "no-such-program: not found in PATH=/usr/bin:/bin; install it there, or write a path that "
         "every host has"},
        {plan("/no/program", "/"), 127,
         "/no/program: not found; install it there, or write a path that every host has"},
        {plan("/etc/passwd", "/"), 126, "/etc/passwd: Permission denied; make it executable there"},
        {plan("sh", "/no/folder"), 126,
         "working directory /no/folder: No such file or directory; start from a folder that every "
         "host has"},
        {plan("sh", "/etc/passwd"), 126,
         "working directory /etc/passwd: Not a directory; start from a folder that every host "
         "has"},
    }));
    const auto problems = find_problems({}, example.plan, 64);

    REQUIRE(problems.size() == 1);
    CHECK(problems.front().exit_code == example.exit_code);
    CHECK(problems.front().text == example.text);
}

TEST_CASE("more descriptors than the hard limit are a problem") {
    const auto problems = find_problems({}, plan("sh", "/"), std::size_t{1} << 60);

    REQUIRE(problems.size() == 1);
    CHECK(problems.front().exit_code == 2);
    CHECK_THAT(problems.front().text, Catch::Contains("ulimit -Hn"));
}
