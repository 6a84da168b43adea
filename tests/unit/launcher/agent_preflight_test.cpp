// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/limits.hpp"
#include "launcher/agent/probe/preflight.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>
#include <vector>

using hvd::launch::HostPlan;
using hvd::launch::agent::find_problems;
using hvd::launch::agent::judge;
using hvd::launch::agent::LimitFindings;
using hvd::launch::agent::Limits;
using hvd::launch::agent::RankNeeds;
using hvd::launch::agent::read_limits;
using hvd::test::TempDir;

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
    CHECK(find_problems({}, plan("sh", "/")).empty());
    CHECK(find_problems({}, plan("/bin/sh", "/tmp")).empty());
    CHECK(find_problems({}, {}).empty());  // it has no rank
}

TEST_CASE("what would keep ranks from running is told with its remedy") {
    struct Example {
        HostPlan plan;
        int exit_code;
        std::string text;
    };
    const auto& example = GENERATE(values<Example>({
        {plan("no-such-program", "/"), 127,
         "'no-such-program' was not found in PATH (/usr/bin:/bin); install it there, or write a "
         "path that every host has"},
        {plan("/no/program", "/"), 127,
         "'/no/program' was not found; install it there, or write a path that every host has"},
        {plan("/etc/passwd", "/"), 126,
         "'/etc/passwd' may not be executed; allow it with chmod +x /etc/passwd"},
        {plan("/etc", "/"), 126, "'/etc' is a directory"},
        {plan("sh", "/no/folder"), 126,
         "working directory /no/folder: No such file or directory; start from a folder that every "
         "host has"},
        {plan("sh", "/etc/passwd"), 126,
         "working directory /etc/passwd: Not a directory; start from a folder that every host "
         "has"},
    }));
    const auto problems = find_problems({}, example.plan);

    REQUIRE(problems.size() == 1);
    CHECK(problems.front().exit_code == example.exit_code);
    CHECK(problems.front().text == example.text);
}

TEST_CASE("a symbolic link that leads nowhere is a problem that says where it points") {
    const TempDir folder;
    const auto link = folder.path() / "train";
    std::filesystem::create_symlink("/nowhere/train", link);
    auto searched = plan("train", "/");
    searched.env.at("PATH") = folder.path().string();

    for (const auto& wanted : {searched, plan(link.string(), "/")}) {
        const auto problems = find_problems({}, wanted);

        REQUIRE(problems.size() == 1);
        CHECK(problems.front().exit_code == 127);
        CHECK(problems.front().text == "'" + link.string() +
                                           "' is a symbolic link to '/nowhere/train', which is "
                                           "not there");
    }
}

TEST_CASE("limits that are high enough are no word worth") {
    CHECK(judge({}, {.ranks = 8, .world = 8, .descriptors = 128}) == LimitFindings{});
    CHECK(judge({.locked_bytes = 1}, {.ranks = 8, .world = 8, .descriptors = 128}) ==
          LimitFindings{});  // nothing there locks memory
    CHECK(judge({.open_files = 142, .processes = 1'000, .used_processes = 10},
                {.ranks = 8, .world = 8, .descriptors = 128}) == LimitFindings{});
    CHECK(judge({.soft_open_files = 1'024}, {.ranks = 8, .world = 256, .descriptors = 128}) ==
          LimitFindings{});
    CHECK(judge({.soft_open_files = 144}, {.ranks = 8, .world = 8, .descriptors = 128}) ==
          LimitFindings{});  // one host
    CHECK(judge({.core_bytes = Limits::kNone}, {.ranks = 8, .is_examination = true}) ==
          LimitFindings{});  // a program gets it
    CHECK(judge({.core_bytes = Limits::kNone, .has_core_files = true}, {.ranks = 8}) ==
          LimitFindings{});  // it harms no job
    CHECK(judge({.processes = 4, .used_processes = 9}, {.descriptors = 128}) ==
          LimitFindings{});  // no rank
}

TEST_CASE("limits that ranks will run into are told with their remedy") {
    struct Example {
        Limits limits;
        bool is_problem;
        std::string value;
        std::string remedy;
    };
    const auto& example = GENERATE(values<Example>({
        {{.open_files = 99, .soft_open_files = 99},
         true,
         "the hard limit of open files is 99, and its ranks may need 1156, of which 1028 for each "
         "other",
         "raise it to that (`ulimit -Hn 1156`"},
        {{.open_files = 1'024, .soft_open_files = 512},
         false,
         "the hard limit of open files is 1024, and its ranks may need 1156",
         "raise it to that (`ulimit -Hn 1156`"},
        {{.open_files = 8'192, .soft_open_files = 1'024},
         false,
         "only 1024 open files and may need 1156, of which 1028 for each other",
         "ulimit -n 8192"},
        {{.core_bytes = Limits::kNone, .has_core_files = true},
         false,
         "writes all its memory to a file",
         "ulimit -c 0"},
        {{.processes = 20, .used_processes = 17},
         true,
         "of the 20 processes and threads that the user may have 3 are left, fewer than its 4 "
         "ranks",
         "ulimit -u"},
        {{.processes = 20, .used_processes = 90}, true, "0 are left", "ulimit -u"},
        {{.processes = 90, .used_processes = 60},
         false,
         "4 ranks with their threads may need 64",
         "ulimit -u"},
        {{.locked_bytes = 65'536, .has_rdma = true},
         false,
         "only 64 KiB of memory may be locked",
         "ulimit -l unlimited"},
        {{.stack_bytes = 524'288}, false, "stacks have only 512 KiB", "ulimit -s 8192"},
    }));
    CAPTURE(example.value);

    const auto found = judge(
        example.limits, {.ranks = 4, .world = 512, .descriptors = 128, .is_examination = true});

    REQUIRE(found.problems.size() == (example.is_problem ? 1 : 0));
    REQUIRE(found.warnings.size() == (example.is_problem ? 0 : 1));
    const auto text = example.is_problem ? found.problems.front().text : found.warnings.front();
    CHECK_THAT(text, Catch::Contains(example.value) && Catch::Contains(example.remedy));
    CHECK((!example.is_problem || found.problems.front().exit_code == 2));
}

TEST_CASE("a limit of open files is never to be set below the need") {
    const auto set = [](const RankNeeds& needs) {
        const auto found = judge({.open_files = 1'000'000, .soft_open_files = 64}, needs);
        REQUIRE(found.warnings.size() == 1);
        return found.warnings.front();
    };

    CHECK_THAT(set({.ranks = 8, .world = 8, .descriptors = 128}), Catch::Contains("-n 65536`"));
    CHECK_THAT(set({.ranks = 8, .world = 50'000, .descriptors = 128}),
               Catch::Contains("may need 100140") && Catch::Contains("-n 100140`"));
    CHECK_THAT(judge({.open_files = 100, .soft_open_files = 64}, {.ranks = 0, .descriptors = 128})
                   .problems.front()
                   .text,
               Catch::Contains("may need 128; raise it to that (`ulimit -Hn 128`"));
}

TEST_CASE("the limits of this process are read") {
    const auto limits = read_limits();

    CHECK(limits.open_files >= 64);
    CHECK(limits.soft_open_files <= limits.open_files);
    CHECK(limits.stack_bytes >= 65'536);
    CHECK((limits.processes == Limits::kNone || limits.used_processes > 0));
}
