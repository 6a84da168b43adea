// SPDX-License-Identifier: Apache-2.0
//
// The real JobStart and JobRunner over simulated hosts, in simulated time.
#include "collectives/base/text.hpp"
#include "tests/sim/run.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using hvd::launch::OnFailure;
using hvd::launch::Reason;
using hvd::sim::draw_script;
using hvd::sim::HostFault;
using hvd::sim::plain_script;
using hvd::sim::Policy;
using hvd::sim::run;

namespace {

constexpr int kExit3 = 3 << 8;

std::optional<std::uint64_t> number_in(const char* variable) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread
    const auto* text = std::getenv(variable);
    return text == nullptr ? std::nullopt : hvd::parse_number<std::uint64_t>(text);
}

}  // namespace

TEST_CASE("a job over many hosts succeeds") {
    const auto outcome = run(plain_script(4, 2));

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    REQUIRE(outcome.result);
    CHECK(outcome.result->exit_code == 0);
    CHECK(outcome.said.empty());
}

TEST_CASE("what a starter says while ranks run goes the way of all output, not past its queue") {
    auto made = plain_script(2, 1);
    made.starter_speaks_at = made.hosts[0].ranks[0].lives / 2;

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK(outcome.said == "horovodrun: srun: beware\n");
}

TEST_CASE("a host whose agent misbehaves is lost, and its ranks end") {
    auto made = plain_script(3, 2);
    made.lease = 1h;
    made.hosts[1].fault = GENERATE(HostFault::sends_garbage, HostFault::names_unknown_rank);
    made.hosts[1].fault_at = 200ms;
    for (auto& host : made.hosts) {
        for (auto& rank : host.ranks) {
            rank.lives = 1h;
        }
    }

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    REQUIRE(outcome.result);
    CHECK(outcome.result->exit_code == 125);
    CHECK(outcome.result->lost_host == "h1");
    CHECK(outcome.lasted < 3s);
}

TEST_CASE("a host that is refused counts from its message and not from its agent's end") {
    auto made = plain_script(3, 1);
    made.hosts[1].fault = HostFault::sends_garbage;
    made.hosts[1].fault_at = 200ms;
    made.hosts[1].ranks[0].term = 300ms;
    made.hosts[2].ranks[0] = {.lives = 400ms, .wait_status = kExit3};  // before that end

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK(outcome.result->lost_host == "h1");
}

TEST_CASE("a rank that fails is named although the clock of its host is far ahead") {
    auto made = plain_script(3, 2);
    made.hosts[2].clock_ahead = 1h;
    made.hosts[0].clock_ahead = -1h;
    made.hosts[2].ranks[1] = {.lives = 500ms, .wait_status = kExit3};
    made.hosts[0].ranks[0] = {.lives = 520ms, .wait_status = SIGSEGV};  // after it, by itself

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK(outcome.result->exit_code == 3);
    CHECK(outcome.result->culprit->rank.rank == 5);
}

TEST_CASE("a silent host is spoken of, then lost with its lease, and its ranks end") {
    auto made = plain_script(3, 2);
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

    CHECK(hvd::join(outcome.complaints, "\n") == "");
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

TEST_CASE("a host that falls silent as its ranks start ends them with its lease") {
    auto made = plain_script(3, 1);
    made.lease = 2s;
    made.link_silence = 1h;
    made.hosts[1].fault = HostFault::falls_silent;
    made.hosts[1].fault_at = 0ms;
    for (auto& host : made.hosts) {
        host.ranks[0].lives = 1h;
    }

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK(outcome.result->lost_host == "h1");
}

TEST_CASE("a closed connection is a verdict at once") {
    auto made = plain_script(2, 2);
    made.lease = 1h;
    made.hosts[1].fault = HostFault::closes;
    made.hosts[1].fault_at = 200ms;

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK(outcome.result->lost_host == "h1");
    CHECK(outcome.lasted < 1s);
}

TEST_CASE("a host whose agent gets a TERM is lost, whatever the order in which others tell") {
    auto made = plain_script(3, 1);
    made.hosts[1].fault = HostFault::is_drained;
    made.hosts[1].fault_at = 200ms;
    made.hosts[1].clock_ahead = 1h;
    made.hosts[1].ranks[0].term = GENERATE(1ms, 30ms);
    made.hosts[1].latency = GENERATE(1ms, 80ms);  // its peers may be heard before it
    for (auto& host : made.hosts) {
        host.ranks[0].notices = 1ms;
    }

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK(outcome.result->exit_code == 125);
    CHECK(outcome.result->reason == Reason::host_lost);
    CHECK(outcome.result->lost_host == "h1");
    CHECK(outcome.result->hosts[0].state == "ok");
    CHECK(outcome.result->hosts[1].state == "lost");
    CHECK(outcome.result->hosts[1].error == "the agent got SIGTERM, and ended the ranks there");
    CHECK(outcome.lasted < 2s);
}

TEST_CASE("with --on-failure wait the others go on, and the job has failed all the same") {
    auto made = plain_script(2, 2);
    made.on_failure = OnFailure::wait;
    made.hosts[0].ranks[1] = {.lives = 100ms, .wait_status = kExit3};
    for (auto& host : made.hosts) {
        for (auto& rank : host.ranks) {
            rank.notices = 1h;  // they do not need each other
        }
    }

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    CHECK(outcome.result->exit_code == 3);
    CHECK(outcome.result->ranks[3].exit_code == 0);
}

TEST_CASE("a process that KILL does not end is listed with its host") {
    auto made = plain_script(2, 1);
    made.hosts[1].ranks[0].is_stuck = true;
    made.hosts[1].ranks[0].term.reset();
    made.hosts[1].ranks[0].notices = 1h;
    made.hosts[1].ranks[0].lives = 1h;
    made.hosts[0].ranks[0] = {.lives = 100ms, .wait_status = kExit3};

    const auto outcome = run(made);

    CHECK(hvd::join(outcome.complaints, "\n") == "");
    REQUIRE(outcome.result->survivors.size() == 1);
    CHECK(outcome.result->survivors[0].host == "h1");
    CHECK(outcome.said.find("process 1001 on host h1 could not be killed") != std::string::npos);
}

TEST_CASE("random faults leave neither an orphan nor a false success nor a hang") {
    const auto seed = number_in("HVD_SIM_SEED");
    const auto count = number_in("HVD_SIM_SCHEDULES").value_or(1000);
    std::random_device random;
    const std::uint64_t drawn = random();
    const auto firsts = seed ? std::vector{*seed} : std::vector<std::uint64_t>{1, drawn};

    for (const auto first : firsts) {
        WARN(count << " schedules from HVD_SIM_SEED=" << first);
        for (auto current = first; current < first + count; ++current) {
            const auto outcome = run(draw_script(current));
            for (const auto& complaint : outcome.complaints) {
                FAIL_CHECK("HVD_SIM_SEED=" << current << " HVD_SIM_SCHEDULES=1: " << complaint);
            }
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
    auto made = plain_script(2, 2);
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
