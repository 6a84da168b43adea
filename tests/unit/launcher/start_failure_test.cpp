// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/start_failure.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <vector>

using hvd::Errc;
using namespace hvd::launch;  // NOLINT(google-build-using-namespace)

TEST_CASE("the exit code of a start that failed comes from its error") {
    CHECK(exit_code_of({Errc::invalid_argument, ""}, 0) == 2);
    CHECK(exit_code_of({Errc::timed_out, ""}, 0) == 124);
    CHECK(exit_code_of({Errc::aborted, ""}, SIGINT) == 130);
    CHECK(exit_code_of({Errc::unavailable, ""}, 0) == 125);
    CHECK(exit_code_of({Errc::unsupported, ""}, 0) == 125);
}

TEST_CASE(
    "a failed preflight tells every problem, and its exit code is that of the one told last") {
    const std::vector<HostProblem> problems{{"a", {.exit_code = 127, .text = "no python"}},
                                            {"b", {.exit_code = 2, .text = "no folder"}}};

    const auto failure = failed_preflight(problems);

    CHECK(failure.words == std::vector<std::string>{"b: no folder", "a: no python"});
    CHECK(failure.result.exit_code == 127);
    CHECK(failure.result.sentence == "a: no python");
    CHECK(failure.result.reason == Reason::start);
}
