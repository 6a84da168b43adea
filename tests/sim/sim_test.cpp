// SPDX-License-Identifier: Apache-2.0
//
// The real JobStart and JobRunner over simulated hosts, in simulated time.
#include "collectives/base/text.hpp"
#include "tests/sim/run.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using hvd::launch::OnFailure;
using hvd::launch::Reason;
using hvd::sim::draw_script;
using hvd::sim::HostFault;
using hvd::sim::Outcome;
using hvd::sim::Policy;
using hvd::sim::run;
using hvd::sim::Script;

namespace {

constexpr int kExit3 = 3 << 8;

Script script(std::size_t hosts, std::size_t ranks) {
    Script made;
    made.hosts.resize(hosts);
    for (auto& host : made.hosts) {
        host.ranks.resize(ranks);
    }
    return made;
}

void expect_no_complaint(const Outcome& outcome) {
    for (const auto& complaint : outcome.complaints) {
        FAIL_CHECK(complaint);
    }
}

}  // namespace

TEST_CASE("a job over many hosts succeeds") {
    const auto outcome = run(script(4, 2));

    expect_no_complaint(outcome);
    REQUIRE(outcome.result);
    CHECK(outcome.result->exit_code == 0);
    CHECK(outcome.said.empty());
}

TEST_CASE("what a starter says while ranks run goes the way of all output, not past its queue") {
    auto made = script(2, 1);
    made.starter_speaks_at = made.hosts[0].ranks[0].lives / 2;

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK(outcome.said == "horovodrun: srun: beware\n");
}

TEST_CASE("an agent of another build is refused, and no rank starts") {
    auto made = script(3, 2);
    made.hosts[1].build = "another";

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK_FALSE(outcome.result);
    CHECK_THAT(outcome.link_error,
               Catch::Contains("h1") &&
                   Catch::Contains("the agent is of build 'another', horovodrun of build "
                                   "'simulated': install both from one build"));
    CHECK(outcome.last_start == 0ms);
}

TEST_CASE("a host whose agent cannot be started does not hide that others fail too") {
    auto made = script(5, 1);
    made.hosts[1].fault = HostFault::refuses;
    made.hosts[3].fault = HostFault::refuses;
    made.hosts[4].build = "another";

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK_FALSE(outcome.result);
    CHECK_THAT(outcome.link_error, Catch::Contains("h1 did not report: there is no room for h1"));
    REQUIRE(outcome.link_words.size() == 2);
    CHECK(outcome.link_words[0] == "h1: there is no room for h1; the same: h3");
    CHECK_THAT(outcome.link_words[1], Catch::StartsWith("h4: the agent is of build 'another'"));
    CHECK(outcome.lasted < 5s);
}

TEST_CASE("a rank that fails is named although the clock of its host is far ahead") {
    auto made = script(3, 2);
    made.hosts[2].clock_ahead = 1h;
    made.hosts[0].clock_ahead = -1h;
    made.hosts[2].ranks[1] = {.lives = 500ms, .wait_status = kExit3};
    made.hosts[0].ranks[0] = {.lives = 520ms, .wait_status = SIGSEGV};  // after it, by itself

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK(outcome.result->exit_code == 3);
    CHECK(outcome.result->culprit->rank.rank == 5);
}

TEST_CASE("a silent host is spoken of, then lost with its lease, and its ranks end") {
    auto made = script(3, 2);
    made.lease = 8s;
    made.link_silence = 60s;
    made.hosts[1].fault = HostFault::falls_silent;
    made.hosts[1].fault_at = 400ms;
    for (auto& host : made.hosts) {
        for (auto& rank : host.ranks) {
            rank.lives = 1h;
        }
    }

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK(outcome.result->exit_code == 125);
    CHECK(outcome.result->reason == Reason::host_lost);
    CHECK(outcome.result->lost_host == "h1");
    CHECK(outcome.said ==
          "horovodrun: no word from h1 for 5 s\n"
          "horovodrun: lost the agent on host h1: no word from it for 8 s (--lease)\n"
          "horovodrun: stopped: ranks 0-1,4-5\n"
          "horovodrun: lost with their host: ranks 2-3\n"
          "horovodrun: processes may remain on host h1, which could not be searched for them: it "
          "did not answer within 1 s\n");
    CHECK(outcome.lasted < 10s);
}

TEST_CASE("a closed connection is a verdict at once") {
    auto made = script(2, 2);
    made.lease = 1h;
    made.hosts[1].fault = HostFault::closes;
    made.hosts[1].fault_at = 200ms;

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK(outcome.result->lost_host == "h1");
    CHECK(outcome.lasted < 1s);
}

TEST_CASE("a host whose agent gets a TERM is lost, whatever the order in which others tell") {
    auto made = script(3, 1);
    made.hosts[1].fault = HostFault::is_drained;
    made.hosts[1].fault_at = 200ms;
    made.hosts[1].clock_ahead = 1h;
    made.hosts[1].ranks[0].term = GENERATE(1ms, 30ms);
    made.hosts[1].latency = GENERATE(1ms, 80ms);  // its peers may be heard before it
    for (auto& host : made.hosts) {
        host.ranks[0].notices = 1ms;
    }

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK(outcome.result->exit_code == 125);
    CHECK(outcome.result->reason == Reason::host_lost);
    CHECK(outcome.result->lost_host == "h1");
    CHECK(outcome.lasted < 2s);
}

TEST_CASE("with --on-failure wait the others go on, and the job has failed all the same") {
    auto made = script(2, 2);
    made.on_failure = OnFailure::wait;
    made.hosts[0].ranks[1] = {.lives = 100ms, .wait_status = kExit3};
    for (auto& host : made.hosts) {
        for (auto& rank : host.ranks) {
            rank.notices = 1h;  // they do not need each other
        }
    }

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    CHECK(outcome.result->exit_code == 3);
    CHECK(outcome.result->ranks[3].exit_code == 0);
}

TEST_CASE("a process that KILL does not end is listed with its host") {
    auto made = script(2, 1);
    made.hosts[1].ranks[0].is_stuck = true;
    made.hosts[1].ranks[0].term.reset();
    made.hosts[1].ranks[0].notices = 1h;
    made.hosts[1].ranks[0].lives = 1h;
    made.hosts[0].ranks[0] = {.lives = 100ms, .wait_status = kExit3};

    const auto outcome = run(made);

    expect_no_complaint(outcome);
    REQUIRE(outcome.result->survivors.size() == 1);
    CHECK(outcome.result->survivors[0].host == "h1");
    CHECK(outcome.said.find("process 1001 on host h1 could not be killed") != std::string::npos);
}

TEST_CASE("random faults leave neither an orphan nor a false success nor a hang") {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread
    const auto* wanted = std::getenv("HVD_SIM_SCHEDULES");
    const auto count = hvd::parse_number<std::uint64_t>(wanted == nullptr ? "1000" : wanted);
    REQUIRE(count);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread
    const auto* first = std::getenv("HVD_SIM_SEED");
    const auto seed = hvd::parse_number<std::uint64_t>(first == nullptr ? "1" : first);
    REQUIRE(seed);

    for (auto current = *seed; current < *seed + *count; ++current) {
        const auto outcome = run(draw_script(current));
        for (const auto& complaint : outcome.complaints) {
            FAIL_CHECK("HVD_SIM_SEED=" << current << " HVD_SIM_SCHEDULES=1: " << complaint);
        }
    }
}

TEST_CASE("what is left out of the product is missed - its lease or its kill or one exit") {
    const auto complaints = [](Policy policy) {
        std::string all;
        constexpr std::uint64_t kSchedules = 150;
        for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
            for (const auto& complaint : run(draw_script(seed), policy).complaints) {
                all += complaint + "\n";
            }
        }
        return all;
    };

    CHECK(complaints({}).empty());
    const auto without_lease = complaints({.has_lease = false});
    CHECK(without_lease.find("orphan") != std::string::npos);
    CHECK(without_lease.find("still waits") != std::string::npos);
    CHECK(complaints({.has_kill = false}).find("orphan") != std::string::npos);
    CHECK(complaints({.tells_exits = false}).find("orphan") != std::string::npos);
}

TEST_CASE("one exit that is not told is an orphan, whatever the rank's end was") {
    auto made = script(2, 2);
    made.hosts[0].ranks[0].lives = 100ms;  // the first to end
    SECTION("in order") {}
    SECTION("a failure") {
        made.hosts[0].ranks[0].wait_status = kExit3;
    }

    const auto outcome = run(made, {.tells_exits = false});

    const auto said = hvd::join(outcome.complaints, "\n");
    CAPTURE(said);
    CHECK(said.find("orphan: the job is over, and nobody has seen the end of rank 0") !=
          std::string::npos);
    REQUIRE(outcome.result);
    CHECK(outcome.result->exit_code != 0);
}

TEST_CASE("random faults end in every way that there is") {
    std::set<std::string_view> reasons;
    int successes = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        const auto outcome = run(draw_script(seed));
        if (outcome.result) {
            reasons.insert(to_string(outcome.result->reason));
            successes += outcome.result->is_success() ? 1 : 0;
        }
    }

    CHECK(reasons == std::set<std::string_view>{"none", "exit", "signal", "exec", "host_lost",
                                                "left_early", "interrupted"});
    CHECK(successes > 20);
}
