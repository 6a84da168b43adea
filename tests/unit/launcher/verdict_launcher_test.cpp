// SPDX-License-Identifier: Apache-2.0
//
// The culprit when mpirun has started the ranks.
#include "launcher/supervise/job_machine.hpp"
#include "launcher/supervise/verdict.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <optional>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): a test of this namespace

namespace {

constexpr int exit_status(int code) {
    return code << 8;
}

RankRecord process(int rank, std::optional<int> status, int at) {
    RankRecord record;
    record.rank = rank;
    record.host = "here";
    record.started = wire::Started{.rank = rank, .pid = 100, .time_ns = 0};
    if (status) {
        record.exited = wire::Exited{
            .rank = rank, .time_ns = at, .wait_status = *status, .oom = {}, .max_rss_bytes = 0};
    }
    return record;
}

JobRecord job(std::vector<RankRecord> ranks, RankRecord launcher) {
    JobRecord record;
    record.ranks = std::move(ranks);
    record.launcher = std::move(launcher);
    record.cause.kind = Cause::Kind::rank_failed;
    return record;
}

LaunchPlan plan_of_two() {
    LaunchPlan plan{.mode = "mpi", .np = 2, .job = {}, .hosts = {{}}};
    plan.hosts[0].host = "here";
    plan.hosts[0].ranks.resize(2);
    plan.hosts[0].ranks[1].rank = 1;
    plan.hosts[0].launchers.resize(1);
    plan.hosts[0].launchers[0].rank = kLauncherRank;
    return plan;
}

}  // namespace

TEST_CASE("the rank that failed is the culprit, not mpirun, which only passes it on") {
    const auto verdict = judge(job({process(0, SIGTERM, 20), process(1, exit_status(7), 10)},
                                   process(kLauncherRank, exit_status(7), 30)));

    CHECK_FALSE(verdict.is_launcher);
    CHECK(verdict.culprit == 1);
    CHECK(verdict.exit_code == 7);
    CHECK(verdict.classes[0] == RankClass::stopped);
}

TEST_CASE("when mpirun was killed, so were its ranks, whoever was seen first") {
    const auto verdict = judge(job({process(0, SIGKILL, 10), process(1, SIGKILL, 11)},
                                   process(kLauncherRank, SIGKILL, 12)));

    CHECK(verdict.is_launcher);
    CHECK_FALSE(verdict.culprit);
    CHECK(verdict.exit_code == 128 + SIGKILL);
    CHECK(verdict.classes[0] == RankClass::stopped);
}

TEST_CASE("where nobody saw the ranks end, the status of mpirun tells") {
    auto unseen = process(0, 0, 10);
    unseen.exited->is_unseen = true;

    const auto failed = judge(job({unseen}, process(kLauncherRank, exit_status(3), 20)));
    const auto good = judge(job({unseen}, process(kLauncherRank, 0, 20)));

    CHECK(failed.is_launcher);
    CHECK(failed.exit_code == 3);
    CHECK(good.exit_code == 0);
}

TEST_CASE("an mpirun that we ended after its ranks is not to blame") {
    auto launcher = process(kLauncherRank, SIGKILL, 30);
    launcher.exited->is_killed_by_launcher = true;

    const auto good = judge(job({process(0, 0, 10), process(1, 0, 11)}, launcher));
    const auto failed = judge(job({process(0, 0, 10), process(1, exit_status(3), 11)}, launcher));
    auto unseen = process(0, 0, 10);
    unseen.exited->is_unseen = true;
    const auto unknown = judge(job({unseen}, launcher));

    CHECK(good.exit_code == 0);
    CHECK(failed.culprit == 1);
    CHECK(failed.exit_code == 3);
    CHECK(unknown.exit_code != 0);
}

TEST_CASE("an mpirun that ends with 0 and has not started all ranks has failed") {
    auto missing = process(0, {}, 0);
    missing.started.reset();

    const auto verdict = judge(job({missing}, process(kLauncherRank, 0, 20)));

    CHECK(verdict.is_launcher);
    CHECK(verdict.reason == Reason::start);
    CHECK(verdict.exit_code == 125);
}

TEST_CASE("the start of mpirun is not the start of a rank") {
    JobMachine machine(plan_of_two());

    (void)machine.on_started({.rank = kLauncherRank, .pid = 5, .time_ns = 1});
    (void)machine.on_started({.rank = 0, .pid = 6, .time_ns = 2});
    CHECK(machine.state() == JobState::starting);
    (void)machine.on_started({.rank = 1, .pid = 7, .time_ns = 3});

    CHECK(machine.state() == JobState::running);
    CHECK(machine.knows(kLauncherRank));
}

TEST_CASE("an mpirun that ends too early ends the job") {
    const int status = GENERATE(0, exit_status(1), SIGKILL);
    JobMachine machine(plan_of_two());
    (void)machine.on_started({.rank = kLauncherRank, .pid = 5, .time_ns = 1});
    (void)machine.on_started({.rank = 0, .pid = 6, .time_ns = 2});

    const auto action = machine.on_exited({.rank = kLauncherRank,
                                           .time_ns = 3,
                                           .wait_status = status,
                                           .oom = {},
                                           .max_rss_bytes = 0});

    CHECK(action == JobAction::stop);
}
