// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/make_result.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <string>
#include <vector>

namespace hvd::launch {
namespace {

/// A job in which every rank there was has succeeded.
JobResult result_with(std::vector<HostSurvivor> survivors, std::vector<UnsweptHost> unswept) {
    const LaunchPlan plan;
    const JobRecord record;
    const std::vector<StderrTail> tails;
    return make_result({.plan = plan,
                        .record = record,
                        .tails = tails,
                        .hosts = {},
                        .survivors = std::move(survivors),
                        .unswept = std::move(unswept),
                        .warnings = {}});
}

TEST_CASE("a job that has left nothing is a success") {
    CHECK(result_with({}, {}).exit_code == 0);
}

TEST_CASE("ranks that succeed make no success where something of the job is left") {
    const auto stuck =
        result_with({{.host = "b", .process = {.pid = 7, .state = "D", .wchan = "nfs"}}}, {});
    CHECK(stuck.exit_code == 125);
    CHECK(stuck.sentence ==
          "the ranks have succeeded, but processes of the job are left that could not be killed");

    const auto unknown = result_with({}, {{.host = "b", .why = "it did not answer within 3 s"}});
    CHECK(unknown.exit_code == 125);
    CHECK(unknown.sentence == "the ranks have succeeded, but processes of the job may be left");
}

/// How a rank ended, what it wrote to standard error, and the exception that it reported.
struct End {
    int wait_status = 0;
    std::string words;
    std::string exception{};
    bool is_induced = false;
};

constexpr int kExit1 = 1 << 8;

/// Who failed with the last words of rank 0, which was first.
std::vector<int> same_as_first(const std::vector<End>& ends) {
    const LaunchPlan plan;
    JobRecord record;
    std::vector<StderrTail> tails;
    for (const auto& end : ends) {
        auto& rank = record.ranks.emplace_back();
        rank.rank = static_cast<int>(record.ranks.size()) - 1;
        rank.started.emplace();
        rank.exited.emplace();
        rank.exited->wait_status = end.wait_status;
        rank.exited->induced = end.is_induced;
        rank.exited->time_ns = 10 + rank.rank;
        if (!end.exception.empty()) {
            rank.exception.emplace();
            rank.exception->time_ns = rank.rank;
            rank.exception->report.text = end.exception;
        }
        tails.emplace_back().add(end.words);
    }
    record.cause.kind = Cause::Kind::rank_failed;
    const auto result = make_result({.plan = plan,
                                     .record = record,
                                     .tails = tails,
                                     .hosts = {},
                                     .survivors = {},
                                     .unswept = {},
                                     .warnings = {}});
    REQUIRE(result.culprit);
    CHECK(result.culprit->rank.rank == 0);
    return result.culprit->same_ranks;
}

TEST_CASE("ranks that failed with the culprit's last lines are found") {
    CHECK(same_as_first({{kExit1, "no data\n"},
                         {kExit1, "no data\n"},
                         {kExit1, "other\n"},
                         {2 << 8, "no data\n"},
                         {0, "no data\n"},
                         {kExit1, "no data\n"}}) == std::vector{1, 5});
}

TEST_CASE("what ranks said before their last traceback does not tell them apart") {
    const std::string traceback = "Traceback (most recent call last):\n  line 1\nValueError: x\n";
    const std::string another = "Traceback (most recent call last):\n  line 1\nValueError: y\n";

    CHECK(same_as_first({{kExit1, "rank 0 begins\n" + traceback},
                         {kExit1, "rank 1 begins\n" + another + traceback},
                         {kExit1, another}}) == std::vector{1});
}

TEST_CASE("an exception that ranks reported counts where their last lines differ") {
    CHECK(same_as_first({{kExit1, "a\n", "ValueError: x"},
                         {kExit1, "b\n", "ValueError: x"},
                         {kExit1, "c\n", "ValueError: y"}}) == std::vector{1});
}

TEST_CASE("a rank that we ended is the same only if it ended as the culprit did") {
    CHECK(same_as_first({{kExit1, "no data\n"},
                         {SIGTERM, "no data\n", "", true},
                         {kExit1, "no data\n", "", true}}) == std::vector{2});
    CHECK(same_as_first({{SIGTERM, "begins\n"}, {SIGTERM, "begins\n", "", true}}).empty());
}

TEST_CASE("ranks that said nothing have nothing in common") {
    CHECK(same_as_first({{kExit1, ""}, {kExit1, ""}}).empty());
}

}  // namespace
}  // namespace hvd::launch
