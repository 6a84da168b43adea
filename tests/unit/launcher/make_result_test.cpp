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
                        .survivors = std::move(survivors),
                        .unswept = std::move(unswept)});
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

TEST_CASE("a missed start limit names the ranks that have not started, if any is left") {
    const LaunchPlan plan;
    const std::vector<StderrTail> tails;
    JobRecord record;
    record.cause.kind = Cause::Kind::start_limit;
    record.ranks.resize(2);
    record.ranks[1].rank = 1;
    record.ranks[0].started.emplace();
    const auto sentence = [&] {
        return make_result({.plan = plan, .record = record, .tails = tails}).sentence;
    };

    CHECK(sentence() == "not every rank had started within --start-timeout: missing ranks 1");
    record.ranks[1].started.emplace();
    CHECK(sentence() == "not every rank had started within --start-timeout; all have since");
}

/// A rank's end, its last lines of standard error, and the exception that it reported.
struct End {
    int wait_status = 0;
    std::string words;
    std::string exception{};
    bool is_killed_by_launcher = false;
};

constexpr int kExit1 = 1 << 8;

/// Of a job in which rank 0 was first to fail.
JobResult result_of(const std::vector<End>& ends, std::size_t error_lines = 20) {
    const LaunchPlan plan;
    JobRecord record;
    std::vector<StderrTail> tails;
    for (const auto& end : ends) {
        auto& rank = record.ranks.emplace_back();
        rank.rank = static_cast<int>(record.ranks.size()) - 1;
        rank.started.emplace();
        rank.exited.emplace();
        rank.exited->wait_status = end.wait_status;
        rank.exited->is_killed_by_launcher = end.is_killed_by_launcher;
        rank.exited->time_ns = 10 + rank.rank;
        if (!end.exception.empty()) {
            rank.exception.emplace();
            rank.exception->time_ns = rank.rank;
            rank.exception->report.text = end.exception;
        }
        tails.emplace_back(error_lines).add(end.words);
    }
    record.cause.kind = Cause::Kind::rank_failed;
    auto result = make_result({.plan = plan, .record = record, .tails = tails});
    REQUIRE(result.culprit);
    CHECK(result.culprit->rank.rank == 0);
    CHECK(result.culprit->stderr_tail.size() <= error_lines);
    return result;
}

/// The ranks that failed with the last output of rank 0.
std::vector<int> same_as_first(const std::vector<End>& ends, std::size_t error_lines = 20) {
    return result_of(ends, error_lines).culprit->same_ranks;
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

/// What Python writes of an exception that led to another.
std::string chain(const std::string& first, const std::string& link) {
    return "Traceback (most recent call last):\n  line 1\n" + first + "\n\n" + link +
           "\n\nTraceback (most recent call last):\n  line 2\nRuntimeError: cannot load\n";
}

TEST_CASE("exceptions of which the causes differ are not the same") {
    const std::string link =
        GENERATE("The above exception was the direct cause of the following exception:",
                 "During handling of the above exception, another exception occurred:");
    const auto missing = chain("FileNotFoundError: x", link);
    const auto wrong = chain("ValueError: y", link);

    CHECK(same_as_first({{kExit1, "rank 0 begins\n" + missing},
                         {kExit1, "rank 1 begins\n" + wrong},
                         {kExit1, "rank 2 begins\n" + wrong + missing}}) == std::vector{2});
}

TEST_CASE("a chain of exceptions of which the first is no longer kept is like no other") {
    const std::string link = "During handling of the above exception, another exception occurred:";
    const auto words = chain(std::string(StderrTail::kMaxBytes, 'x') + "\nValueError: y", link);

    CHECK(same_as_first({{kExit1, words}, {kExit1, words}}).empty());
}

TEST_CASE("how many lines the report shows does not change who is the same") {
    const std::string link = "During handling of the above exception, another exception occurred:";
    std::string frames;
    for (int frame = 0; frame < 30; ++frame) {
        frames += "  frame " + std::to_string(frame) + "\n";
    }
    const auto missing = chain(frames + "FileNotFoundError: x", link);
    const auto wrong = chain(frames + "ValueError: y", link);

    const auto lines = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{20}, std::size_t{500});
    CHECK(same_as_first({{kExit1, "rank 0 begins\n" + missing},
                         {kExit1, "rank 1 begins\n" + wrong},
                         {kExit1, "rank 2 begins\n" + missing}},
                        lines) == std::vector{2});
    CHECK(same_as_first({{kExit1, "rank 0 begins\n" + frames}, {kExit1, frames}}, lines) ==
          std::vector{1});
}

TEST_CASE("where both ranks reported an exception, their last lines do not count") {
    CHECK(same_as_first({{kExit1, "a\n", "ValueError: x"}, {kExit1, "a\n", "ValueError: y"}})
              .empty());
    CHECK(same_as_first({{kExit1, "a\n", "ValueError: x"}, {kExit1, "a\n"}}) == std::vector{1});
}

TEST_CASE("an exception that ranks reported counts where their last lines differ") {
    CHECK(same_as_first({{kExit1, "a\n", "ValueError: x"},
                         {kExit1, "b\n", "ValueError: x"},
                         {kExit1, "c\n", "ValueError: y"}}) == std::vector{1});
}

/// The report about ranks that reported these exceptions at these times and exited with 1.
JobResult result_of_exceptions(const std::vector<std::pair<std::string, int>>& said) {
    const LaunchPlan plan;
    JobRecord record;
    for (const auto& [exception, time] : said) {
        auto& rank = record.ranks.emplace_back();
        rank.rank = static_cast<int>(record.ranks.size()) - 1;
        rank.started.emplace();
        rank.exited.emplace();
        rank.exited->wait_status = kExit1;
        rank.exited->time_ns = time + 5;
        rank.exception.emplace();
        rank.exception->time_ns = time;
        rank.exception->report.text = exception;
    }
    record.cause.kind = Cause::Kind::rank_failed;
    const std::vector<StderrTail> tails(said.size());
    return make_result({.plan = plan, .record = record, .tails = tails});
}

TEST_CASE("of ranks that failed alike the lowest stands for all, whichever was first") {
    const auto result =
        result_of_exceptions({{"x", 30}, {"other", 25}, {"x", 10}, {"x", 20}, {"third", 40}});

    CHECK(result.culprit->rank.rank == 0);
    CHECK(result.culprit->same_ranks == std::vector{2, 3});
    CHECK(result.culprit->failed_ranks == 5);
    CHECK(result.culprit->lead_seconds == Approx(15e-9));
    CHECK(result.ranks[0].rank_class == RankClass::culprit);
    CHECK(result.ranks[1].rank_class == RankClass::also_failed);
    CHECK(result.ranks[3].rank_class == RankClass::same);
}

TEST_CASE("ranks that all failed alike have no lead") {
    const auto result = result_of_exceptions({{"x", 3}, {"x", 2}});

    CHECK(result.culprit->failed_ranks == 2);
    CHECK_FALSE(result.culprit->lead_seconds);
}

TEST_CASE("the addresses of objects do not tell exceptions apart") {
    const auto result = result_of_exceptions({{"KeyError: <Data object at 0x7f01ab>", 1},
                                              {"KeyError: <Data object at 0x7e99>", 2},
                                              {"KeyError: <Data object at 0x7e99> twice", 3}});

    CHECK(result.culprit->same_ranks == std::vector{1});
}

TEST_CASE("a rank that we ended is the same only if it failed by an exception as the culprit did") {
    const std::string traceback = "Traceback (most recent call last):\n  line 1\nValueError: x\n";
    CHECK(same_as_first({{kExit1, "no data\n"}, {kExit1, "no data\n", "", true}}).empty());
    CHECK(same_as_first({{kExit1, "epoch 3\n" + traceback},
                         {SIGTERM, "epoch 3\n" + traceback, "", true},
                         {kExit1, "epoch 2\n" + traceback, "", true}}) == std::vector{2});
    CHECK(same_as_first({{kExit1, "a\n", "ValueError: x"},
                         {kExit1, "b\n", "ValueError: x", true},
                         {kExit1, "a\n", "ValueError: y", true}}) == std::vector{1});
    CHECK(same_as_first({{SIGTERM, "begins\n"}, {SIGTERM, "begins\n", "", true}}).empty());
}

TEST_CASE("a culprit whose teardown we ended has the exit of its exception") {
    const int end = GENERATE(SIGTERM, 0);

    const auto result = result_of({{end, "", "ValueError: x", true}, {SIGTERM, "", "", true}});

    CHECK(result.culprit->what == "exit 1");
    CHECK(result.culprit->rank.exit_code == 1);
    CHECK_FALSE(result.culprit->rank.signal);
    CHECK(result.ranks[0].signal.value_or(0) == end);
}

TEST_CASE("ranks that said nothing have nothing in common") {
    CHECK(same_as_first({{kExit1, ""}, {kExit1, ""}}).empty());
}

}  // namespace
}  // namespace hvd::launch
