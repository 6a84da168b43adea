// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_machine.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>

using namespace std::chrono_literals;
using hvd::coll::ReportKind;
using hvd::launch::Cause;
using hvd::launch::JobAction;
using hvd::launch::JobMachine;
using hvd::launch::JobState;
using hvd::launch::LaunchPlan;
using hvd::launch::OnFailure;
namespace wire = hvd::launch::wire;

namespace {

constexpr int kExit3 = 3 << 8;

LaunchPlan plan(int ranks) {
    LaunchPlan made;
    made.np = ranks;
    auto& host = made.hosts.emplace_back();
    host.host = "here";
    for (int rank = 0; rank < ranks; ++rank) {
        auto& spec = host.ranks.emplace_back();
        spec.rank = rank;
        spec.local_rank = rank;
    }
    return made;
}

wire::Exited exited(int rank, int status, bool is_killed_by_launcher = false) {
    wire::Exited event;
    event.rank = rank;
    event.wait_status = status;
    event.is_killed_by_launcher = is_killed_by_launcher;
    return event;
}

wire::RankReport report(int rank, ReportKind kind) {
    wire::RankReport event;
    event.rank = rank;
    event.report.kind = kind;
    return event;
}

JobMachine running(int ranks, OnFailure on_failure = OnFailure::stop) {
    JobMachine machine(plan(ranks), on_failure);
    for (int rank = 0; rank < ranks; ++rank) {
        CHECK(machine.on_started({.rank = rank, .pid = 100 + rank}) == JobAction::none);
    }
    CHECK(machine.state() == JobState::running);
    return machine;
}

const JobMachine::TimePoint kStart{};

}  // namespace

TEST_CASE("a job runs once its last rank has started") {
    JobMachine machine(plan(2));

    machine.on_started({.rank = 1, .pid = 1});
    CHECK(machine.state() == JobState::starting);
    machine.on_started({.rank = 0, .pid = 2});

    CHECK(machine.state() == JobState::running);
    CHECK(machine.on_start_limit() == JobAction::none);
}

TEST_CASE("a job ends well when every rank exits with 0") {
    auto machine = running(2);

    CHECK(machine.on_exited(exited(0, 0)) == JobAction::limit_exit);
    CHECK(machine.on_exited(exited(1, 0)) == JobAction::none);
    CHECK(machine.on_all_gone() == JobAction::finish);

    CHECK(machine.state() == JobState::done);
    CHECK(machine.record().cause.kind == Cause::Kind::none);
}

TEST_CASE("the first abnormal exit stops the job, later ones change nothing") {
    auto machine = running(3);

    CHECK(machine.on_exited(exited(1, kExit3)) == JobAction::stop);
    CHECK(machine.on_exited(exited(0, SIGSEGV)) == JobAction::none);
    CHECK(machine.on_exited(exited(2, SIGTERM, true)) == JobAction::none);
    CHECK(machine.on_all_gone() == JobAction::finish);

    CHECK(machine.record().cause.kind == Cause::Kind::rank_failed);
}

TEST_CASE("a rank that cannot be started stops a job that is still starting") {
    JobMachine machine(plan(2));

    CHECK(machine.on_start_failed({.rank = 0, .step = "vfork", .error_number = 11, .time_ns = 0}) ==
          JobAction::stop);
}

TEST_CASE("an end that we caused is no failure") {
    auto machine = running(2);

    CHECK(machine.on_exited(exited(0, SIGTERM, true)) != JobAction::stop);
    CHECK(machine.state() == JobState::running);
}

TEST_CASE("the first signal asks, the second kills") {
    auto machine = running(2);

    CHECK(machine.on_stop_signal(SIGINT, kStart + 1s) == JobAction::ask);
    CHECK(machine.state() == JobState::asked);
    CHECK(machine.on_exited(exited(0, SIGINT)) == JobAction::none);
    CHECK(machine.on_stop_signal(SIGTERM, kStart + 2s) == JobAction::kill);

    CHECK(machine.record().cause.signal == SIGINT);
}

TEST_CASE("two signals at almost the same time are one request") {
    auto machine = running(1);

    CHECK(machine.on_stop_signal(SIGTERM, kStart + 1s) == JobAction::ask);
    CHECK(machine.on_stop_signal(SIGTERM, kStart + 1s + 1ms) == JobAction::none);
    CHECK(machine.on_stop_signal(SIGTERM, kStart + 1s + JobMachine::kOneRequest) ==
          JobAction::kill);
}

TEST_CASE("who was asked and does not end is killed after the grace time") {
    auto machine = running(1);

    CHECK(machine.on_stop_signal(SIGINT, kStart) == JobAction::ask);
    CHECK(machine.on_grace_over() == JobAction::kill);
    CHECK(machine.on_grace_over() == JobAction::none);
}

TEST_CASE("a signal while a failed job stops explains, a further one kills") {
    auto machine = running(2);
    CHECK(machine.on_exited(exited(0, kExit3)) == JobAction::stop);

    CHECK(machine.on_stop_signal(SIGINT, kStart + 1s) == JobAction::say_hint);
    CHECK(machine.on_stop_signal(SIGINT, kStart + 2s) == JobAction::kill);

    CHECK(machine.record().cause.kind == Cause::Kind::rank_failed);
}

TEST_CASE("a rank that reported its exception may end by itself first") {
    auto machine = running(2);

    CHECK(machine.on_report(report(1, ReportKind::exception)) == JobAction::watch_exit);
    CHECK(machine.on_exited(exited(1, 1 << 8)) == JobAction::none);
    CHECK(machine.on_teardown_over(1) == JobAction::stop);
    CHECK(machine.record().cause.kind == Cause::Kind::rank_failed);
}

TEST_CASE("after an exception the others have the same time to fail by it") {
    auto machine = running(3);

    machine.on_traceback(1);
    CHECK(machine.on_exited(exited(1, 1 << 8)) == JobAction::watch_exit);
    CHECK(machine.on_report(report(0, ReportKind::exception)) == JobAction::watch_exit);
    CHECK(machine.on_exited(exited(0, 1 << 8)) == JobAction::none);
    CHECK(machine.on_exited(exited(2, 1 << 8)) == JobAction::stop);
}

TEST_CASE("what ends the job while others have time to fail is not its cause") {
    auto machine = running(2);

    CHECK(machine.on_report(report(1, ReportKind::exception)) == JobAction::watch_exit);
    CHECK(machine.on_exited(exited(1, 1 << 8)) == JobAction::none);
    CHECK(machine.on_time_limit() == JobAction::stop);
    CHECK(machine.record().cause.kind == Cause::Kind::rank_failed);
}

TEST_CASE("a rank that hangs after its exception is stopped") {
    auto machine = running(2);

    CHECK(machine.on_report(report(1, ReportKind::exception)) == JobAction::watch_exit);
    CHECK(machine.on_teardown_over(1) == JobAction::stop);
    CHECK(machine.on_teardown_over(1) == JobAction::none);
}

TEST_CASE("time limits, a lost host and a closed console stop the job") {
    auto limited = running(1);
    CHECK(limited.on_time_limit() == JobAction::stop);
    CHECK(limited.record().cause.kind == Cause::Kind::time_limit);

    JobMachine slow(plan(1));
    CHECK(slow.on_start_limit() == JobAction::stop);
    CHECK(slow.record().cause.kind == Cause::Kind::start_limit);

    auto lost = running(1);
    CHECK(lost.on_host_lost({.host = "here", .time_ns = 1, .why = "why"}) == JobAction::stop);
    CHECK(lost.record().cause.kind == Cause::Kind::host_lost);
    CHECK(lost.record().lost_hosts.at(0).why == "why");

    auto unread = running(1);
    CHECK(unread.on_console_closed() == JobAction::stop);
    CHECK(unread.record().cause.kind == Cause::Kind::console_closed);
}

TEST_CASE("a host whose agent leaves and then goes is lost once, from when it left") {
    auto machine = running(1);

    CHECK(machine.on_host_lost({.host = "here", .time_ns = 1, .why = "a signal"}) ==
          JobAction::stop);
    CHECK(machine.on_host_lost({.host = "here", .time_ns = 2, .why = "it has gone"}) ==
          JobAction::none);

    REQUIRE(machine.record().lost_hosts.size() == 1);
    CHECK(machine.record().lost_hosts[0].why == "a signal");
}

TEST_CASE("a signal that an agent got as well, and told first, is a request to horovodrun") {
    const auto cause_after = [](int signal, JobMachine::TimePoint::duration later) {
        auto machine = running(1);
        const hvd::launch::HostLoss loss{.host = "here",
                                         .time_ns = std::chrono::nanoseconds(1s).count(),
                                         .why = "the agent got SIGTERM",
                                         .signal = SIGTERM};
        CHECK(machine.on_host_lost(loss) == JobAction::stop);
        CHECK(machine.on_stop_signal(signal, kStart + 1s + later) == JobAction::say_hint);
        return machine.record().cause.kind;
    };

    CHECK(cause_after(SIGTERM, 1ms) == Cause::Kind::interrupted);
    CHECK(cause_after(SIGINT, 1ms) == Cause::Kind::host_lost);
    CHECK(cause_after(SIGTERM, JobMachine::kOneRequest) == Cause::Kind::host_lost);
}

TEST_CASE("the first cause stays") {
    auto machine = running(1);

    CHECK(machine.on_time_limit() == JobAction::stop);
    CHECK(machine.on_console_closed() == JobAction::none);
    CHECK(machine.on_exited(exited(0, kExit3)) == JobAction::none);

    CHECK(machine.record().cause.kind == Cause::Kind::time_limit);
}

TEST_CASE("the first end that stops nobody starts the time of --exit-timeout, once") {
    auto machine = running(3);

    CHECK(machine.on_exited(exited(0, 0)) == JobAction::limit_exit);
    CHECK(machine.on_exited(exited(1, 0)) == JobAction::none);
    CHECK(machine.on_exit_limit() == JobAction::stop);
    CHECK(machine.record().cause.kind == Cause::Kind::exit_limit);
}

TEST_CASE("with --on-failure wait no failure of a rank or loss of a host stops the others") {
    auto machine = running(3, OnFailure::wait);

    CHECK(machine.on_exited(exited(0, kExit3)) == JobAction::limit_exit);
    CHECK(machine.on_exited(exited(1, SIGSEGV)) == JobAction::none);
    CHECK(machine.on_teardown_over(2) == JobAction::none);
    CHECK(machine.on_host_lost({.host = "here", .time_ns = 1, .why = ""}) == JobAction::none);
    CHECK(machine.state() == JobState::running);
    CHECK(machine.on_all_gone() == JobAction::finish);
}

TEST_CASE("with --on-failure wait a rank that cannot start stops the job all the same") {
    JobMachine machine(plan(2), OnFailure::wait);

    CHECK(machine.on_start_failed({.rank = 0, .step = "vfork", .error_number = 11, .time_ns = 0}) ==
          JobAction::stop);
}

TEST_CASE("ranks outside the plan are unknown") {
    const JobMachine machine(plan(2));

    CHECK(machine.knows(0));
    CHECK(machine.knows(1));
    CHECK_FALSE(machine.knows(2));
    CHECK_FALSE(machine.knows(-1));
}

TEST_CASE("hvd.init() given up is noted with the ranks that were late, once") {
    auto machine = running(4);
    auto event = report(0, ReportKind::start_timeout);
    event.time_ns = 1;

    machine.on_start_timeout(event, {});
    CHECK_FALSE(machine.record().ranks[0].peer_lost);

    machine.on_start_timeout(event, {1, 3});
    event.rank = 2;
    event.time_ns = 2;
    machine.on_start_timeout(event, {1, 3});
    machine.on_activity({.rank = 3, .state = "T", .wait_channel = "", .cpu_ms = 1});
    machine.on_activity({.rank = 3, .state = "R", .wait_channel = "", .cpu_ms = 2});

    const auto& ranks = machine.record().ranks;
    CHECK((ranks[0].peer_lost && ranks[2].peer_lost));
    REQUIRE((ranks[1].missed && ranks[3].missed));
    CHECK(ranks[1].missed->report.peer == 1);
    CHECK(ranks[3].missed->time_ns == 1);
    CHECK(ranks[3].activity->state == "T");
    CHECK_FALSE((ranks[0].missed || ranks[2].missed || ranks[1].peer_lost));
}

TEST_CASE("a stall is noted with the rank that was missing, once") {
    auto machine = running(3);
    for (const int peer : {2, 2, 7, -1}) {
        auto event = report(0, ReportKind::stalled);
        event.report.peer = peer;
        event.time_ns = peer + machine.record().ranks[2].missed.has_value();
        CHECK(machine.on_report(event) == JobAction::none);
    }

    REQUIRE(machine.record().ranks[2].missed);
    CHECK(machine.record().ranks[2].missed->rank == 0);
    CHECK(machine.record().ranks[2].missed->time_ns == 2);
    CHECK_FALSE(machine.record().ranks[0].missed);
}
