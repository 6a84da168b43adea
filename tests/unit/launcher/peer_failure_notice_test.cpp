// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/peer_failure_notice.hpp"

#include <catch2/catch.hpp>

#include <csignal>

using hvd::coll::ReportKind;
using hvd::launch::HostPlan;
using hvd::launch::JobRecord;
using hvd::launch::PeerFailureNotice;
using hvd::launch::RankRecord;
namespace wire = hvd::launch::wire;

namespace {

constexpr int exit_status(int code) {
    return code << 8;
}

RankRecord ended(int rank, int wait_status) {
    RankRecord record;
    record.rank = rank;
    record.host = "node" + std::to_string(rank);
    record.started = wire::Started{.rank = rank, .pid = 100 + rank};
    record.exited = wire::Exited{.rank = rank, .wait_status = wait_status, .oom = {}};
    return record;
}

wire::RankReport report(int rank, ReportKind kind) {
    return {.rank = rank, .time_ns = 1, .report = {.kind = kind, .peer = -1, .text = {}}};
}

}  // namespace

TEST_CASE("a rank that dies is told with its pid, host and end") {
    PeerFailureNotice by_exit;
    PeerFailureNotice by_signal;

    const auto exit = by_exit.on_exited(ended(2, exit_status(3)));
    const auto signal = by_signal.on_exited(ended(2, SIGKILL));

    REQUIRE(exit);
    CHECK(*exit ==
          wire::PeerLost{.rank = 2, .why = "rank 2 (pid 102 on host node2) has died: exit 3"});
    REQUIRE(signal);
    CHECK(signal->why == "rank 2 (pid 102 on host node2) has died: killed by SIGKILL");
}

TEST_CASE("only the first loss is told: what follows follows from it") {
    PeerFailureNotice notice;
    (void)notice.on_exited(ended(2, SIGKILL));

    CHECK_FALSE(notice.on_exited(ended(1, SIGKILL)));
}

TEST_CASE("a rank that failed because of a peer, or was ended by us, is not reported") {
    auto victim = ended(1, exit_status(1));
    victim.peer_lost = report(1, ReportKind::peer_lost);
    auto stopped = ended(2, SIGTERM);
    stopped.exited->is_killed_by_launcher = true;
    PeerFailureNotice notice;

    CHECK_FALSE(notice.on_exited(victim));
    CHECK_FALSE(notice.on_exited(stopped));
    CHECK(notice.on_exited(ended(3, SIGKILL)));
}

TEST_CASE("an exit with 0 is a loss only in the middle of a world") {
    PeerFailureNotice notice;

    CHECK_FALSE(notice.on_exited(ended(0, 0)));  // a program that never was in one

    CHECK_FALSE(notice.on_put(1, "key"));
    notice.on_report(report(1, ReportKind::finished));
    CHECK_FALSE(notice.on_exited(ended(1, 0)));

    CHECK_FALSE(notice.on_put(2, "key"));
    notice.on_report(report(2, ReportKind::finished));
    CHECK_FALSE(notice.on_put(2, "key"));  // of its second world
    const auto lost = notice.on_exited(ended(2, 0));
    REQUIRE(lost);
    CHECK(lost->why.ends_with("has died: exit 0, without leaving its world (hvd.shutdown())"));
}

TEST_CASE("who ended before it came to a world is a loss once another rank enters it") {
    PeerFailureNotice entered_later;
    CHECK_FALSE(entered_later.on_exited(ended(1, 0)));
    CHECK_FALSE(entered_later.on_put(0, "key"));
    const auto later = entered_later.on_put(0, "world/0/local");

    PeerFailureNotice asked_before;
    CHECK_FALSE(asked_before.on_get(0, "world/0/local"));
    const auto before = asked_before.on_exited(ended(1, 0));

    REQUIRE(later);
    CHECK(*later == wire::PeerLost{.rank = 1,
                                   .why = "rank 1 (pid 101 on host node1) has ended without a "
                                          "call of hvd.init(): exit 0"});
    CHECK(before == later);
    CHECK_FALSE(entered_later.on_get(2, "world/0/local"));
}

TEST_CASE("who was in the last world and left it is missed only in the next one") {
    PeerFailureNotice notice;
    CHECK_FALSE(notice.on_put(0, "world/0/local"));
    CHECK_FALSE(notice.on_get(1, "world/0/local"));
    notice.on_report(report(1, ReportKind::finished));
    CHECK_FALSE(notice.on_exited(ended(1, 0)));
    CHECK_FALSE(notice.on_get(2, "world/0/local"));

    const auto lost = notice.on_get(2, "world/1/local");
    REQUIRE(lost);
    CHECK(lost->why.ends_with("has ended without another call of hvd.init(): exit 0"));
}

TEST_CASE("late are the ranks that live and have not entered the world of one that waits") {
    JobRecord record;
    record.ranks = {ended(0, 0), ended(1, 0), ended(2, 0), ended(3, 0)};
    for (const auto rank : {0U, 1U, 2U}) {
        record.ranks[rank].exited.reset();
    }
    PeerFailureNotice notice;

    CHECK(notice.late_ranks(0, record).empty());  // it is in none itself

    CHECK_FALSE(notice.on_put(0, "world/0/key"));
    CHECK(notice.late_ranks(0, record) == std::vector{1, 2});
    CHECK_FALSE(notice.on_get(2, "world/0/key"));
    CHECK(notice.late_ranks(0, record) == std::vector{1});
    CHECK_FALSE(notice.on_get(1, "world/0/key"));
    CHECK(notice.late_ranks(0, record).empty());

    CHECK_FALSE(notice.on_get(2, "world/1/key"));
    CHECK(notice.late_ranks(2, record) == std::vector{0, 1});
    CHECK(notice.late_ranks(0, record).empty());
}

TEST_CASE("a rank that ends after it gave up hvd.init() is told, without a word of its death") {
    PeerFailureNotice notice;
    CHECK_FALSE(notice.on_put(0, "world/0/key"));
    auto waiting = ended(0, exit_status(1));
    waiting.peer_lost = report(0, ReportKind::start_timeout);

    const auto lost = notice.on_exited(waiting);

    REQUIRE(lost);
    CHECK(lost->why ==
          "rank 0 (pid 100 on host node0) has given up hvd.init(), to which other ranks came "
          "late: exit 1");
}

TEST_CASE("who left its world in order may fail afterwards") {
    PeerFailureNotice notice;
    (void)notice.on_put(1, "key");
    notice.on_report(report(1, ReportKind::finished));

    CHECK_FALSE(notice.on_exited(ended(1, exit_status(3))));
}

TEST_CASE("of a lost host a rank is told that was still needed, and why") {
    JobRecord record;
    record.ranks = {ended(0, 0), ended(1, 0), ended(2, 0), ended(3, 0)};
    for (const auto rank : {2U, 3U}) {
        record.ranks[rank].exited.reset();
        record.ranks[rank].host = "far";
    }
    HostPlan host;
    host.ranks.resize(3);
    host.ranks[0].rank = 1;
    host.ranks[1].rank = 2;
    host.ranks[2].rank = 3;
    PeerFailureNotice notice;
    notice.on_report(report(2, ReportKind::finished));

    const auto lost = notice.on_host_lost(host, record, "no word");

    REQUIRE(lost);
    CHECK(*lost ==
          wire::PeerLost{.rank = 3,
                         .why = "rank 3 (pid 103 on host far) is lost with its host: no word"});
    CHECK_FALSE(notice.on_host_lost(host, record, "no word"));
}

TEST_CASE("ranks that have formed a world without the first that died are told of the next one") {
    JobRecord record;
    for (int rank = 0; rank < 4; ++rank) {
        record.ranks.emplace_back();
        record.ranks.back().rank = rank;
    }
    record.ranks[2] = ended(2, SIGKILL);
    record.ranks[0].peer_lost = report(0, ReportKind::peer_lost);
    PeerFailureNotice notice;
    CHECK(notice.on_exited(record.ranks[2]));
    notice.on_ask(0, 1);
    notice.on_ask(1, 1);
    notice.on_ask(3, 1);

    notice.on_new_world({0, 1, 3}, record);

    auto next = ended(0, SIGKILL);  // it has reported the loss of rank 2, and has recovered from it
    next.peer_lost = record.ranks[0].peer_lost;
    const auto told = notice.on_exited(next);
    REQUIRE(told);
    CHECK(told->rank == 0);
    CHECK_FALSE(notice.on_exited(ended(1, SIGKILL)));
}

TEST_CASE("a member of the new world that ends in order before it has come is missed") {
    JobRecord record;
    record.ranks.resize(3);
    PeerFailureNotice notice;
    CHECK(notice.on_exited(ended(2, SIGKILL)));
    notice.on_report(report(1, ReportKind::finished));
    notice.on_ask(0, 1);
    notice.on_ask(1, 1);

    notice.on_new_world({0, 1}, record);

    CHECK(notice.on_exited(ended(1, 0)));
}
