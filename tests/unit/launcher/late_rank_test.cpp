// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/late_rank.hpp"

#include "launcher/supervise/make_result.hpp"
#include "launcher/supervise/verdict.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace hvd::launch {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kExit1 = 1 << 8;

wire::RankReport start_timeout(int rank, int late) {
    return {.rank = rank,
            .time_ns = 31 * kSecond,
            .report = {.kind = coll::ReportKind::start_timeout,
                       .peer = late,
                       .text = "within 30 s (HOROVOD_START_TIMEOUT)"}};
}

/// Missed by rank 0 in hvd.init(), and ended by us.
RankRecord late_rank(int number, std::string state, std::string channel = "") {
    RankRecord rank;
    rank.rank = number;
    rank.host = "h" + std::to_string(number);
    rank.started = wire::Started{.rank = number, .pid = 100 + number};
    rank.missed = start_timeout(0, number);
    rank.activity = wire::RankActivity{.rank = number,
                                       .state = std::move(state),
                                       .wait_channel = std::move(channel),
                                       .cpu_ms = 1500};
    rank.exited.emplace();
    rank.exited->wait_status = SIGTERM;
    rank.exited->is_killed_by_launcher = true;
    rank.exited->time_ns = 33 * kSecond;
    return rank;
}

/// Rank 0 has given up, and exits with 1.
RankRecord waiting_rank() {
    RankRecord rank;
    rank.host = "h0";
    rank.started.emplace();
    rank.peer_lost = start_timeout(0, 1);
    rank.exited.emplace();
    rank.exited->wait_status = kExit1;
    rank.exited->time_ns = 32 * kSecond;
    return rank;
}

}  // namespace

TEST_CASE("the activity of a late rank is told in words, as far as it is known") {
    const auto told = [](std::string state, std::string channel = "") {
        return describe_activity(late_rank(1, std::move(state), std::move(channel)));
    };

    CHECK(told("S", "hrtimer_nanosleep") ==
          "sleeps (hrtimer_nanosleep), 1.5 s of CPU time in 31.0 s");
    CHECK(told("S", "0") == "sleeps, 1.5 s of CPU time in 31.0 s");
    CHECK(told("R", "0") == "runs, 1.5 s of CPU time in 31.0 s");
    CHECK(told("D", "nfs_wait") ==
          "waits for a device or file system (nfs_wait), 1.5 s of CPU time in 31.0 s");
    CHECK(told("T") == "is stopped by a signal, 1.5 s of CPU time in 31.0 s");
    CHECK(told("t") == "is held by a debugger, 1.5 s of CPU time in 31.0 s");
    CHECK(told("I") == "is in state I, 1.5 s of CPU time in 31.0 s");

    auto rank = late_rank(1, "S");
    rank.activity.reset();
    CHECK(describe_activity(rank) == "has not been seen since");
    rank.started.reset();
    CHECK(describe_activity(rank) == "has not started");
}

TEST_CASE("a rank late to hvd.init() is the culprit, and one that gave up has lost a peer") {
    JobRecord record;
    record.ranks = {waiting_rank(), late_rank(1, "S"), late_rank(2, "T")};
    record.cause.kind = Cause::Kind::rank_failed;

    const auto verdict = judge(record);

    CHECK(verdict.reason == Reason::stalled);
    CHECK(verdict.exit_code == 1);
    CHECK(verdict.culprit == 1);
    CHECK(verdict.classes.front() == RankClass::lost_peer);
    CHECK(describe_failure(record.ranks[1], verdict) ==
          "has not called hvd.init() within 30 s (HOROVOD_START_TIMEOUT); it sleeps, 1.5 s of CPU "
          "time in 31.0 s");
}

TEST_CASE("each late rank is named with its host and what it does, the first few at least") {
    constexpr int kLate = 12;
    const LaunchPlan plan;
    JobRecord record;
    record.ranks = {waiting_rank()};
    for (int number = 1; number <= kLate; ++number) {
        record.ranks.push_back(late_rank(number, number == 2 ? "T" : "R"));
    }
    record.cause.kind = Cause::Kind::rank_failed;
    const std::vector<StderrTail> tails(record.ranks.size(), StderrTail(20));

    const auto result = make_result({.plan = plan, .record = record, .tails = tails});

    REQUIRE(result.culprit);
    CHECK(result.culprit->rank.rank == 1);
    CHECK(result.culprit->rank.host == "h1");
    CHECK(result.culprit->same_ranks.size() == kLate - 1);
    REQUIRE(result.culprit->same_notes.size() == 8);
    CHECK(result.culprit->same_notes.front() ==
          "rank 2 (host h2) is stopped by a signal, 1.5 s of CPU time in 31.0 s");
    CHECK(result.culprit->same_notes.back() ==
          "rank 9 (host h9) runs, 1.5 s of CPU time in 31.0 s");
}

}  // namespace hvd::launch
