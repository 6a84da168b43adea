// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/verdict.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

using hvd::coll::ReportKind;
using hvd::launch::Cause;
using hvd::launch::describe_failure;
using hvd::launch::find_lead;
using hvd::launch::JobRecord;
using hvd::launch::judge;
using hvd::launch::RankClass;
using hvd::launch::RankRecord;
using hvd::launch::Reason;
using hvd::launch::Verdict;
namespace wire = hvd::launch::wire;

namespace {

constexpr int exit_status(int code) {
    return code << 8;
}

/// A rank in the words of a test: `Rank(0).exits(3, at 10)`.
class Rank {
public:
    explicit Rank(int number) {
        record_.rank = number;
        record_.host = "here";
        record_.started = wire::Started{.rank = number, .pid = 100 + number};
    }
    Rank ends(int status, int at) && {
        record_.exited.emplace();
        record_.exited->wait_status = status;
        record_.exited->time_ns = at;
        return std::move(*this);
    }
    Rank stopped(int status, int at) && {
        auto rank = std::move(*this).ends(status, at);
        rank.record_.exited->is_killed_by_launcher = true;
        return rank;
    }
    Rank out_of_memory() && {
        record_.exited->oom = "its cgroup's oom_kill rose by 1 (limit 64 MiB)";
        return std::move(*this);
    }
    Rank on(const char* host) && {
        record_.host = host;
        return std::move(*this);
    }
    Rank raised(int at) && { return std::move(*this).reports(record_.exception, -1, at); }
    Rank lost(int peer, int at) && { return std::move(*this).reports(record_.peer_lost, peer, at); }
    Rank missed(int by, int at) && {
        auto rank = std::move(*this).reports(record_.missed, record_.rank, at);
        rank.record_.missed->rank = by;
        rank.record_.missed->report.text = "rank 0 has waited for 9 s";
        return rank;
    }
    Rank not_started(const char* step, int error_number, const char* why_not_executed = "") && {
        record_.started.reset();
        record_.start_failed = wire::StartFailed{.rank = record_.rank,
                                                 .step = step,
                                                 .error_number = error_number,
                                                 .why_not_executed = why_not_executed,
                                                 .time_ns = 0};
        return std::move(*this);
    }
    Rank failed_at(int at) && {
        record_.start_failed->time_ns = at;
        return std::move(*this);
    }
    [[nodiscard]] const RankRecord& record() const { return record_; }

private:
    Rank reports(std::optional<wire::RankReport>& place, int peer, int at) && {
        place.emplace();
        place->rank = record_.rank;
        place->time_ns = at;
        place->report.kind = peer < 0 ? ReportKind::exception : ReportKind::peer_lost;
        place->report.peer = peer;
        return std::move(*this);
    }

    RankRecord record_;
};

std::optional<std::int64_t> lead_in(const JobRecord& record) {
    return find_lead(record, judge(record));
}

JobRecord job(const std::vector<Rank>& ranks, Cause::Kind cause = Cause::Kind::rank_failed) {
    JobRecord record;
    for (const auto& rank : ranks) {
        record.ranks.push_back(rank.record());
    }
    record.cause.kind = cause;
    return record;
}

using enum RankClass;

}  // namespace

TEST_CASE("all ranks exit with 0: success") {
    const auto verdict = judge(job({Rank(0).ends(0, 1), Rank(1).ends(0, 2)}, Cause::Kind::none));

    CHECK(verdict == Verdict{.exit_code = 0,
                             .reason = Reason::none,
                             .culprit = {},
                             .lost = {},
                             .classes = {ok, ok}});
}

TEST_CASE("the first rank that fails is the culprit, with its exit code") {
    const auto verdict = judge(job({Rank(0).stopped(SIGTERM, 12), Rank(1).ends(exit_status(3), 10),
                                    Rank(2).ends(exit_status(4), 11), Rank(3).ends(0, 5)}));

    CHECK(verdict == Verdict{.exit_code = 3,
                             .reason = Reason::exit,
                             .culprit = 1,
                             .lost = {},
                             .classes = {stopped, culprit, also_failed, ok}});
}

TEST_CASE("ranks that Slurm has signalled have not failed by that signal") {
    auto record = job({Rank(0).lost(1, 14).ends(exit_status(1), 15), Rank(1).ends(SIGTERM, 10),
                       Rank(2).ends(exit_status(128 + SIGTERM), 11), Rank(3).stopped(SIGTERM, 12)});
    CHECK(judge(record).reason == Reason::signal);
    record.step_signals = {SIGUSR1};
    CHECK(judge(record).reason == Reason::signal);
    record.step_signals = {SIGUSR1, SIGTERM};

    CHECK(judge(record) == Verdict{.exit_code = 128 + SIGTERM,
                                   .reason = Reason::interrupted,
                                   .culprit = {},
                                   .lost = {},
                                   .step_signal = SIGTERM,
                                   .classes = {lost_peer, stopped, stopped, stopped}});
}

TEST_CASE("a rank that fails before Slurm's signal is the culprit") {
    auto record = job({Rank(0).ends(SIGTERM, 12), Rank(1).ends(exit_status(3), 10)});
    record.step_signals = {SIGTERM};

    CHECK(judge(record).culprit == 1);
    CHECK(judge(record).exit_code == 3);
}

TEST_CASE("a signal gives 128 and its number") {
    const auto verdict = judge(job({Rank(0).ends(SIGSEGV, 1)}));

    CHECK(verdict.exit_code == 139);
    CHECK(verdict.reason == Reason::signal);
}

TEST_CASE("a core dump changes nothing about the signal") {
    constexpr int kCoreDumped = 0x80;
    const auto record = job({Rank(0).ends(SIGABRT | kCoreDumped, 1)});

    const auto verdict = judge(record);

    CHECK(verdict.exit_code == 134);
    CHECK(describe_failure(record.ranks[0], verdict) == "signal SIGABRT");
}

TEST_CASE("a rank that the kernel killed for memory is named so") {
    const auto record = job({Rank(0).ends(SIGKILL, 1).out_of_memory()});

    const auto verdict = judge(record);

    CHECK(verdict.reason == Reason::oom);
    CHECK(verdict.exit_code == 137);
    CHECK(describe_failure(record.ranks[0], verdict) ==
          "out of memory: its cgroup's oom_kill rose by 1 (limit 64 MiB)");
}

TEST_CASE("a rank whose own exception came after the culprit's has failed, also if we ended it") {
    const auto verdict = judge(job({Rank(0).raised(10).ends(exit_status(1), 12),
                                    Rank(1).raised(11).lost(0, 13).stopped(SIGTERM, 14),
                                    Rank(2).lost(0, 13).raised(14).ends(exit_status(1), 15)}));

    CHECK(verdict.classes == std::vector{culprit, also_failed, lost_peer});
}

TEST_CASE("who only lost a peer is no culprit, even when its exit came first") {
    const auto verdict =
        judge(job({Rank(0).lost(1, 11).ends(exit_status(1), 12), Rank(1).ends(SIGSEGV, 20),
                   Rank(2).lost(1, 10).stopped(SIGTERM, 13)}));

    CHECK(verdict.culprit == 1);
    CHECK(verdict.classes == std::vector{lost_peer, culprit, lost_peer});
    CHECK(verdict.exit_code == 139);
}

TEST_CASE("an exception counts from its report, however long teardown took") {
    const auto verdict =
        judge(job({Rank(0).ends(exit_status(7), 20), Rank(1).raised(10).ends(exit_status(1), 30)}));

    CHECK(verdict.culprit == 1);
    CHECK(verdict.exit_code == 1);
}

TEST_CASE("a rank that was killed in the teardown of its exception exits with 1") {
    const auto record =
        job({Rank(0).raised(10).stopped(SIGTERM, 30), Rank(1).stopped(SIGTERM, 30)});

    const auto verdict = judge(record);

    CHECK(verdict.culprit == 0);
    CHECK(verdict.exit_code == 1);
    CHECK(describe_failure(record.ranks[0], verdict) == "exit 1");
}

TEST_CASE("a crash before an exception elsewhere is the cause of it") {
    const auto verdict =
        judge(job({Rank(0).raised(11).ends(exit_status(1), 12), Rank(1).ends(SIGSEGV, 10)}));

    CHECK(verdict.culprit == 1);
}

TEST_CASE("a crash during our TERM is a crash") {
    const auto verdict =
        judge(job({Rank(0).lost(1, 10).ends(exit_status(1), 11), Rank(1).stopped(SIGSEGV, 12)}));

    CHECK(verdict.culprit == 1);
    CHECK(verdict.reason == Reason::signal);
}

TEST_CASE("a clean exit that others waited for is leaving early") {
    const auto record = job({Rank(0).ends(0, 5), Rank(1).lost(0, 8).ends(exit_status(1), 9)});

    const auto verdict = judge(record);

    CHECK(verdict == Verdict{.exit_code = 1,
                             .reason = Reason::left_early,
                             .culprit = 0,
                             .lost = {},
                             .classes = {culprit, lost_peer}});
}

TEST_CASE("who left in order and was missed is the culprit, however slowly it ends") {
    const auto record =
        job({Rank(0).stopped(SIGTERM, 12), Rank(1).lost(0, 8).ends(exit_status(1), 9)});

    const auto verdict = judge(record);

    CHECK(verdict == Verdict{.exit_code = 1,
                             .reason = Reason::left_early,
                             .culprit = 0,
                             .lost = {},
                             .classes = {culprit, lost_peer}});
    CHECK(describe_failure(record.ranks[0], verdict) ==
          "shut down, while other ranks still waited for it");
}

TEST_CASE("who has kept others waiting for too long is the culprit, until something else ends it") {
    const auto record =
        job({Rank(0).lost(1, 8).ends(exit_status(1), 9), Rank(1).missed(0, 8).stopped(SIGTERM, 12),
             Rank(2).missed(0, 8).stopped(0, 13)});

    const auto verdict = judge(record);

    CHECK(verdict.reason == Reason::stalled);
    CHECK(verdict.exit_code == 1);
    CHECK(verdict.culprit == 1);
    CHECK(verdict.classes == std::vector{lost_peer, culprit, also_failed});
    CHECK(describe_failure(record.ranks[1], verdict) == "stalled: rank 0 has waited for 9 s");
    const auto died_before = judge(job({Rank(0).lost(1, 8).ends(exit_status(1), 9),
                                        Rank(1).missed(0, 8).ends(exit_status(5), 7)}));
    CHECK(died_before.reason == Reason::exit);
    CHECK(died_before.exit_code == 5);
}

TEST_CASE("who was missed only because we stopped it is no culprit") {
    const auto verdict = judge(job({Rank(0).ends(exit_status(3), 5), Rank(1).stopped(SIGTERM, 7),
                                    Rank(2).lost(1, 8).ends(exit_status(1), 9)}));

    CHECK(verdict.culprit == 0);
    CHECK(verdict.exit_code == 3);
}

TEST_CASE("who was stopped in the instant in which another failed did not leave before it") {
    const auto verdict =
        judge(job({Rank(0).stopped(SIGTERM, 10), Rank(1).lost(0, 15).ends(exit_status(1), 16),
                   Rank(2).not_started("execve x", ENOENT, "'x' was not found").failed_at(10)}));

    CHECK(verdict.culprit == 2);
}

TEST_CASE("of two ranks that could not be started the other one has failed too") {
    const auto verdict = judge(job({Rank(0).not_started("execve x", ENOENT).failed_at(2),
                                    Rank(1).not_started("execve x", ENOENT).failed_at(1)}));

    CHECK(verdict.classes == std::vector<RankClass>{also_failed, culprit});
}

TEST_CASE("a clean exit that nobody misses is no failure of others") {
    const auto verdict = judge(job({Rank(0).ends(0, 5), Rank(1).ends(exit_status(9), 9)}));

    CHECK(verdict.culprit == 1);
    CHECK(verdict.exit_code == 9);
    CHECK(verdict.classes == std::vector{ok, culprit});
}

TEST_CASE("when everybody lost a peer, the first who said so has to do") {
    const auto verdict = judge(job(
        {Rank(0).lost(1, 7).ends(exit_status(1), 9), Rank(1).lost(0, 6).ends(exit_status(2), 9)}));

    CHECK(verdict.culprit == 1);
    CHECK(verdict.exit_code == 2);
}

TEST_CASE("a command that cannot be executed is 126, one that is missing 127") {
    const auto fails_with = [](int error_number) {
        return job({Rank(0).not_started("execve ./a", error_number, "'./a' is a folder")});
    };
    CHECK(judge(fails_with(EACCES)).exit_code == 126);
    CHECK(judge(fails_with(ENOEXEC)).exit_code == 126);
    CHECK(judge(fails_with(ENOENT)).exit_code == 127);
    CHECK(describe_failure(fails_with(EACCES).ranks[0], judge(fails_with(EACCES))) ==
          "cannot execute: './a' is a folder");
}

TEST_CASE("a rank that fails before its command is executed tells the step") {
    const auto record = job({Rank(0).not_started("sched_setaffinity", EINVAL)});
    const auto verdict = judge(record);
    CHECK(verdict.exit_code == 125);
    CHECK(verdict.reason == Reason::start);
    CHECK(describe_failure(record.ranks[0], verdict) ==
          "cannot start: sched_setaffinity: Invalid argument");
}

TEST_CASE(
    "an interrupted job succeeds when every rank ends with 0, else it is 128 and the signal") {
    auto record = job({Rank(0).ends(0, 1), Rank(1).ends(0, 1)}, Cause::Kind::interrupted);
    record.cause.signal = SIGTERM;
    CHECK(judge(record).exit_code == 0);

    record.ranks[1].exited->wait_status = SIGTERM;
    const auto verdict = judge(record);
    CHECK(verdict.exit_code == 143);
    CHECK(verdict.reason == Reason::interrupted);
    CHECK_FALSE(verdict.culprit);
    CHECK(verdict.classes == std::vector{ok, stopped});
}

TEST_CASE("the launcher's own endings have their codes") {
    const auto code = [](Cause::Kind cause) {
        return judge(job({Rank(0).stopped(SIGTERM, 1)}, cause)).exit_code;
    };
    CHECK(code(Cause::Kind::time_limit) == 124);
    CHECK(code(Cause::Kind::start_limit) == 124);
    CHECK(code(Cause::Kind::exit_limit) == 124);
    CHECK(code(Cause::Kind::console_closed) == 141);
}

TEST_CASE("a SIGKILL without a word of the kernel came from outside") {
    const auto record = job({Rank(0).ends(SIGKILL, 1)});

    const auto verdict = judge(record);

    CHECK(verdict.reason == Reason::signal);
    CHECK(describe_failure(record.ranks[0], verdict) == "killed by SIGKILL from outside");
}

TEST_CASE("a lost host is the culprit when nothing failed before, and its ranks are lost") {
    auto record = job({Rank(0).lost(1, 12).ends(exit_status(1), 13), Rank(1).on("node2"),
                       Rank(2).stopped(SIGTERM, 14), Rank(3).ends(exit_status(4), 11)},
                      Cause::Kind::host_lost);
    record.lost_hosts = {{.host = "node2", .time_ns = 10, .why = "silence"}};

    const auto verdict = judge(record);

    CHECK(verdict == Verdict{.exit_code = 125,
                             .reason = Reason::host_lost,
                             .culprit = {},
                             .lost = record.lost_hosts[0],
                             .classes = {lost_peer, lost_host, stopped, also_failed}});
}

TEST_CASE("a rank that failed before its host was lost is the culprit") {
    auto record = job({Rank(0).ends(exit_status(3), 9), Rank(1).on("node2")});
    record.lost_hosts = {{.host = "node2", .time_ns = 10, .why = "silence"}};

    const auto verdict = judge(record);

    CHECK(verdict.culprit == 0);
    CHECK(verdict.exit_code == 3);
    CHECK_FALSE(verdict.lost);
    CHECK(verdict.classes == std::vector{culprit, lost_host});
}

TEST_CASE("who reported an exception before its host was lost is the culprit") {
    auto record = job({Rank(0).lost(1, 12).ends(exit_status(1), 13), Rank(1).on("node2").raised(9)},
                      Cause::Kind::host_lost);
    record.lost_hosts = {{.host = "node2", .time_ns = 10, .why = ""}};

    const auto verdict = judge(record);

    CHECK(verdict.culprit == 1);
    CHECK(verdict.exit_code == 1);
    CHECK(describe_failure(record.ranks[1], verdict) ==
          "an exception, and its host was lost before it ended");
}

TEST_CASE("a peer that is lost in the teardown of an exception is not the reason for it") {
    const auto record =
        job({Rank(0).raised(10).lost(1, 12).ends(exit_status(1), 13), Rank(1).ends(SIGSEGV, 11),
             Rank(2).lost(1, 12).raised(14).ends(exit_status(1), 15)});

    CHECK(judge(record).culprit == 0);
}

TEST_CASE("of two lost hosts the one that fell silent first is to blame") {
    auto record = job({Rank(0).on("a"), Rank(1).on("b")}, Cause::Kind::host_lost);
    record.lost_hosts = {{.host = "a", .time_ns = 20, .why = ""},
                         {.host = "b", .time_ns = 10, .why = ""}};

    CHECK(judge(record).lost->host == "b");
}

TEST_CASE("a host whose agent was told to leave is the culprit, whatever its ranks' ends were") {
    const auto with_end = [](Rank rank) {
        auto record = job({Rank(0).lost(1, 12).ends(exit_status(1), 13),
                           std::move(rank).on("node2"), Rank(2).stopped(SIGTERM, 14)});
        record.lost_hosts = {{.host = "node2",
                              .time_ns = 10,
                              .why = "the agent got SIGTERM",
                              .has_left = true,
                              .signal = SIGTERM}};
        return record;
    };

    for (const auto& rank :
         {Rank(1).stopped(SIGTERM, 11), Rank(1).stopped(0, 11), Rank(1).stopped(SIGKILL, 30),
          Rank(1).raised(11).stopped(exit_status(1), 12), Rank(1).ends(exit_status(3), 11),
          // The clocks differ, or the same signal has gone to the rank and came to it first.
          Rank(1).stopped(0, 9), Rank(1).stopped(SIGTERM, 9), Rank(1).ends(SIGTERM, 9),
          Rank(1).ends(exit_status(128 + SIGTERM), 9)}) {
        const auto verdict = judge(with_end(rank));
        CHECK(verdict.exit_code == 125);
        CHECK(verdict.reason == Reason::host_lost);
        CHECK_FALSE(verdict.culprit);
        REQUIRE(verdict.lost);
        CHECK(verdict.lost->host == "node2");
    }
    CHECK(judge(with_end(Rank(1).ends(SIGTERM, 9))).classes[1] == stopped);
    CHECK(judge(with_end(Rank(1).ends(SIGINT, 9))).culprit == 1);
    CHECK(judge(with_end(Rank(1).ends(0, 9))).reason == Reason::left_early);
    CHECK(judge(with_end(Rank(1).raised(9).ends(exit_status(128 + SIGTERM), 12))).culprit == 1);
    auto elsewhere = with_end(Rank(1).stopped(SIGTERM, 11));
    elsewhere.ranks[2] = Rank(2).stopped(SIGTERM, 9).record();  // by another clock
    elsewhere.ranks[0].peer_lost->report.peer = 2;
    CHECK(judge(elsewhere).lost);
}

TEST_CASE("a job whose host is lost after all ranks have exited with 0 has not succeeded") {
    auto record = job({Rank(0).ends(0, 1)}, Cause::Kind::host_lost);
    record.lost_hosts = {{.host = "here", .time_ns = 2, .why = ""}};

    CHECK(judge(record).exit_code == 125);
}

TEST_CASE("ranks that were ended by neither us nor themselves are the launcher's failure") {
    const auto verdict = judge(job({Rank(0).stopped(SIGKILL, 1)}, Cause::Kind::none));

    CHECK(verdict.exit_code == 125);
    CHECK(verdict.reason == Reason::host_lost);
}

TEST_CASE("the culprit is ahead of the next rank that failed by itself") {
    const auto record = job({Rank(0).ends(exit_status(1), 90), Rank(1).ends(exit_status(3), 10),
                             Rank(2).ends(SIGSEGV, 45), Rank(3).ends(0, 20)});

    CHECK(lead_in(record) == 35);
}

TEST_CASE("an exception counts from its report, on both sides of the lead") {
    const auto record = job(
        {Rank(0).raised(20).ends(exit_status(1), 70), Rank(1).raised(10).ends(exit_status(1), 95)});

    CHECK(lead_in(record) == 10);
}

TEST_CASE("who left early is ahead from its end on") {
    const auto record = job({Rank(0).lost(2, 12).ends(exit_status(1), 13),
                             Rank(1).ends(exit_status(7), 30), Rank(2).ends(0, 10)});

    CHECK(lead_in(record) == 20);
}

TEST_CASE("ranks that we ended or that lost a peer leave the culprit alone") {
    const auto failed = Rank(0).ends(exit_status(3), 10);

    CHECK_FALSE(lead_in(job({failed})));
    CHECK_FALSE(lead_in(job({failed, Rank(1).stopped(SIGTERM, 12), Rank(2).stopped(SIGSEGV, 13),
                             Rank(3).lost(0, 11).ends(exit_status(1), 14), Rank(4).ends(0, 20)})));
    CHECK_FALSE(lead_in(job({Rank(0).ends(0, 1)}, Cause::Kind::none)));
}
