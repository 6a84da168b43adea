// SPDX-License-Identifier: Apache-2.0
//
// The real JobStart over simulated hosts: links, questions, and starts that fail.
#include "collectives/base/text.hpp"
#include "tests/sim/run.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace std::chrono_literals;
using hvd::sim::HostFault;
using hvd::sim::plain_script;
using hvd::sim::Question;
using hvd::sim::run;

TEST_CASE("an agent of another build is refused, and no rank starts") {
    auto made = plain_script(3, 2);
    made.hosts[1].build = "another";

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK_FALSE(outcome.result);
    CHECK_THAT(outcome.start_error,
               Catch::Contains("h1") &&
                   Catch::Contains("the agent is of build 'another', horovodrun of build "
                                   "'simulated': install both from one build"));
    CHECK(outcome.last_start == 0ms);
}

TEST_CASE("a host whose agent cannot be started does not hide that others fail too") {
    auto made = plain_script(5, 1);
    made.hosts[1].fault = HostFault::refuses;
    made.hosts[3].fault = HostFault::refuses;
    made.hosts[4].build = "another";

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK_FALSE(outcome.result);
    CHECK_THAT(outcome.start_error, Catch::Contains("h1 did not report: there is no room for h1"));
    REQUIRE(outcome.start_words.size() == 2);
    CHECK(outcome.start_words[0] == "h1: there is no room for h1; the same: h3");
    CHECK_THAT(outcome.start_words[1], Catch::StartsWith("h4: the agent is of build 'another'"));
    CHECK(outcome.lasted < 5s);
}

TEST_CASE("hosts that are one machine have their slots on the first, whatever they are called") {
    auto made = plain_script(4, 2);
    made.hosts[2].twin = 0;
    made.hosts[3].twin = 0;

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    REQUIRE(outcome.result);
    CHECK(outcome.hosts[0].host.slots == 6);
    CHECK(outcome.hosts[1].host.slots == 2);
    CHECK(outcome.hosts[2].host.slots == 0);
    CHECK(outcome.hosts[3].host.slots == 0);
}

TEST_CASE("MASTER_PORT is one of the span that is free on the first host, or no rank starts") {
    auto made = plain_script(2, 1);
    made.ports = {.first = 29'500, .last = 29'510};
    made.free_port = GENERATE(29'507, 0);

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    if (made.free_port != 0) {
        CHECK(outcome.result);
        CHECK(outcome.hosts[0].facts.free_port == 29'507);
        return;
    }
    REQUIRE(outcome.start);
    CHECK(outcome.start->result.exit_code == 2);
    CHECK_THAT(outcome.start_error,
               Catch::StartsWith("no port from 29500 to 29510 is free on h0 for MASTER_PORT"));
}

TEST_CASE("hosts that cannot run their ranks are all told, and no rank starts") {
    auto made = plain_script(4, 1);
    made.hosts[1].problem = "'x' was not found";
    made.hosts[3].problem = "there is no folder";

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    REQUIRE(outcome.start);
    CHECK(outcome.start->result.exit_code == 127);
    CHECK(outcome.start_error == "h1: 'x' was not found");
    CHECK(outcome.start_words == std::vector<std::string>{"h3: there is no folder"});
    CHECK(outcome.last_start == 0ms);
}

TEST_CASE("a host that fails instead of an answer is named, and no rank starts") {
    auto made = plain_script(3, 1);
    made.lease = 1h;
    made.ports = {.first = 29'500, .last = 29'510};
    auto& host = made.hosts[0];  // only the first is asked for a port
    host.fault_instead_of = GENERATE(Question::seek, Question::pick_port, Question::check);
    host.fault = GENERATE(HostFault::closes, HostFault::agent_dies, HostFault::is_drained,
                          HostFault::sends_garbage, HostFault::falls_silent);
    const bool is_silent = host.fault == HostFault::falls_silent;

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    REQUIRE(outcome.start);
    CHECK(outcome.start->result.exit_code == (is_silent ? 124 : 125));
    CHECK_THAT(outcome.start_error, Catch::Contains("h0"));
    CHECK(outcome.last_start == 0ms);
    CHECK(outcome.lasted < (is_silent ? 36s : 5s));
}

TEST_CASE("an agent that speaks another version of the protocol is refused") {
    auto made = plain_script(2, 1);
    made.hosts[1].fault = HostFault::speaks_another_version;

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK_THAT(outcome.start_error,
               Catch::Contains("h1") && Catch::Contains("does not begin with HVDWIRE1"));
    CHECK(outcome.last_start == 0ms);
}
