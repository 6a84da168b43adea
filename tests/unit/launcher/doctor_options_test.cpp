// SPDX-License-Identifier: Apache-2.0
//
// Command lines that start no rank: a doctor's and a dry run's.
#include "tests/unit/launcher/command_lines.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

using hvd::launch::error;
using hvd::launch::Examine;
using hvd::launch::Host;
using hvd::launch::parse_command_line;
using hvd::launch::request;
using hvd::launch::Words;
using hvd::launch::words;

TEST_CASE("doctor is a command of its own as the very first word only") {
    const auto parsed = parse_command_line(words("doctor -H a:1,b:2 --json sh -c true"), {});
    REQUIRE(parsed);
    const auto* examine = std::get_if<Examine>(&*parsed);
    REQUIRE(examine != nullptr);
    CHECK(examine->json);
    CHECK(examine->job.hosts.list == std::vector<Host>{{"a", 1}, {"b", 2}});
    CHECK(examine->job.command == Words{"sh", "-c", "true"});

    const auto alone = parse_command_line({"doctor"}, {});
    REQUIRE(alone);
    CHECK(std::holds_alternative<Examine>(*alone));

    CHECK(request("-np 1 doctor --json").command == Words{"doctor", "--json"});
    CHECK(error("-- doctor") == "say how many ranks to start: -np N");
}

TEST_CASE("doctor refuses what is about a plan, and a job what is about the doctor") {
    CHECK_THAT(error("doctor --dry-run"), Catch::Contains("doctor starts no rank"));
    CHECK_THAT(error("doctor --facts f"), Catch::Contains("doctor starts no rank"));
    CHECK_THAT(error("-np 1 --json true"), Catch::Contains("`horovodrun doctor`"));

    const auto* flag =
        GENERATE("--summary s", "--output-filename o", "--launch-trace t", "--timeout 3");
    CAPTURE(flag);
    CHECK_THAT(error("doctor " + std::string(flag)),
               Catch::StartsWith(std::string(flag, std::string_view(flag).find(' ')) +
                                 " is about a job, and the doctor starts none; leave it out"));
}

TEST_CASE("a dry run refuses what only a job writes") {
    CHECK(error("-np 1 --dry-run --summary s true") ==
          "--summary tells how a job ended, and --dry-run starts none; leave one of them out");
    CHECK(error("-np 1 --dry-run --output-filename o true") ==
          "--output-filename takes what ranks print, and --dry-run starts none; leave one of them "
          "out");
}
