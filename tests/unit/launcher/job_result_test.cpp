// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_result.hpp"

#include "launcher/output/reserved_file.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

using hvd::launch::Culprit;
using hvd::launch::format_last_words;
using hvd::launch::format_summary;
using hvd::launch::JobResult;
using hvd::launch::RankClass;
using hvd::launch::RankResult;
using hvd::launch::Reason;
using hvd::launch::ReservedFile;
using hvd::test::TempDir;
using Json = nlohmann::json;

namespace {

RankResult rank(int number, RankClass rank_class) {
    RankResult result;
    result.rank = number;
    result.host = "node1";
    result.local_rank = number;
    result.pid = 1000 + number;
    result.rank_class = rank_class;
    return result;
}

JobResult failed_job() {
    JobResult result;
    result.job_id = "0123456789abcdef0123456789abcdef";
    result.exit_code = 3;
    result.reason = Reason::exit;
    result.seconds = 1.5;
    result.ranks = {rank(0, RankClass::stopped),   rank(1, RankClass::culprit),
                    rank(2, RankClass::stopped),   rank(3, RankClass::stopped),
                    rank(4, RankClass::lost_peer), rank(5, RankClass::also_failed)};
    result.ranks[0].signal = SIGTERM;
    result.ranks[4].exit_code = 1;
    result.ranks[1].exit_code = 3;
    result.hosts = {{.host = "node1", .state = "ok", .error = ""}};
    result.culprit = Culprit{.rank = result.ranks[1],
                             .what = "exit 3",
                             .message = "",
                             .stderr_tail = {"first", "second"}};
    return result;
}

}  // namespace

TEST_CASE("a rank that was never started has no pid anywhere") {
    auto result = failed_job();
    result.ranks[3].pid = 0;
    result.culprit->rank.pid = 0;

    const auto summary = Json::parse(format_summary(result));

    CHECK(summary["ranks"][3]["pid"].is_null());
    CHECK(summary["ranks"][2]["pid"] == 1002);
    CHECK(summary["culprit"]["pid"].is_null());
    CHECK(format_last_words(result).find("culprit: rank 1 (host node1, local rank 1): exit 3\n") !=
          std::string::npos);
}

TEST_CASE("the last words name the culprit, its last lines, and the others") {
    CHECK(format_last_words(failed_job()) ==
          "horovodrun: culprit: rank 1 (host node1, local rank 1, pid 1001): exit 3\n"
          "horovodrun: | first\n"
          "horovodrun: | second\n"
          "horovodrun: also failed: ranks 5\n"
          "horovodrun: stopped: ranks 0,2-3\n"
          "horovodrun: lost a peer: ranks 4\n");
}

TEST_CASE("where others failed too, the culprit's line says how much later that was") {
    auto result = failed_job();
    result.culprit->failed_ranks = 8;
    const auto [lead, words] = GENERATE(values<std::pair<double, const char*>>({
        {0.0, "less than 1 ms"},
        {0.04, "40 ms"},
        {3.21, "3.2 s"},
        {312.4, "312 s"},
    }));
    result.culprit->lead_seconds = lead;

    const auto summary = Json::parse(format_summary(result));

    CHECK(format_last_words(result).find("): exit 3, first of 8, " + std::string(words) +
                                         " before the next\n") != std::string::npos);
    CHECK(summary["culprit"]["failed_ranks"] == 8);
    CHECK(summary["culprit"]["seconds_before_next"] == lead);
}

TEST_CASE("the lead of who ran out of memory does not run into the kernel's words") {
    auto result = failed_job();
    result.reason = Reason::oom;
    result.culprit->what =
        "out of memory: its cgroup's oom_kill rose by 1; the kernel's log: Killed process 7";
    CHECK(format_last_words(result).find("): " + result.culprit->what + "\n") != std::string::npos);

    result.culprit->failed_ranks = 2;
    result.culprit->lead_seconds = 0.04;
    CHECK(format_last_words(result).find(
              "): out of memory, first of 2, 40 ms before the next: its cgroup's oom_kill rose by "
              "1; the kernel's log: Killed process 7\n") != std::string::npos);
}

TEST_CASE("last words that several ranks had are there once, with who had them") {
    auto result = failed_job();
    result.culprit->same_ranks = {0, 2, 3};

    CHECK(format_last_words(result).find("horovodrun: | second\n"
                                         "horovodrun: the same on ranks 0,2-3\n"
                                         "horovodrun: also failed") != std::string::npos);
    CHECK(Json::parse(format_summary(result))["culprit"]["same_ranks"] == Json({0, 2, 3}));

    result.culprit->same_ranks = {5};
    CHECK(format_last_words(result).find("horovodrun: the same on ranks 5\n") != std::string::npos);
}

TEST_CASE("what a rank reported is shown unless its last lines show it already") {
    auto result = failed_job();
    result.culprit->message = "ValueError: boom";
    CHECK(format_last_words(result).find("horovodrun: it reported: ValueError: boom\n") !=
          std::string::npos);

    result.culprit->stderr_tail.emplace_back("ValueError: boom");
    CHECK(format_last_words(result).find("it reported") == std::string::npos);
}

TEST_CASE("a lost host is named, and its ranks apart from those that lost a peer") {
    auto result = failed_job();
    result.exit_code = 125;
    result.reason = Reason::host_lost;
    result.culprit.reset();
    result.lost_host = "node3";
    result.sentence = "lost the agent on host node3: silence";
    result.ranks[1].rank_class = RankClass::lost_host;
    result.ranks[1].exit_code.reset();
    result.survivors = {{.host = "node2", .process = {.pid = 7, .state = "D", .wchan = "nfs"}}};

    CHECK(format_last_words(result) ==
          "horovodrun: lost the agent on host node3: silence\n"
          "horovodrun: also failed: ranks 5\n"
          "horovodrun: stopped: ranks 0,2-3\n"
          "horovodrun: lost a peer: ranks 4\n"
          "horovodrun: lost with their host: ranks 1\n"
          "horovodrun: process 7 on host node2 could not be killed (state D, waiting in nfs)\n");
    const auto json = Json::parse(format_summary(result));
    CHECK(json["culprit"]["host"] == "node3");
    CHECK(json["culprit"]["rank"].is_null());
    CHECK(json["survivors"] ==
          Json::array({{{"host", "node2"}, {"pid", 7}, {"state", "D"}, {"wchan", "nfs"}}}));
}

TEST_CASE("a host that could not be searched is named, with the reason") {
    auto result = failed_job();
    result.unswept = {{.host = "node3", .why = "it did not answer within 3 s"}};

    CHECK_THAT(format_last_words(result),
               Catch::EndsWith("horovodrun: processes may remain on host node3, which could not be "
                               "searched for them: it did not answer within 3 s\n"));
    CHECK(Json::parse(format_summary(result))["unswept"] ==
          Json::array({{{"host", "node3"}, {"why", "it did not answer within 3 s"}}}));
}

TEST_CASE("a success has no last words") {
    JobResult result;
    result.ranks = {rank(0, RankClass::ok)};

    CHECK(format_last_words(result).empty());
}

TEST_CASE("the summary has every field of its format") {
    const auto json = Json::parse(format_summary(failed_job()));

    CHECK(json["version"] == 1);
    CHECK(json["job_id"] == "0123456789abcdef0123456789abcdef");
    CHECK(json["outcome"] == "failed");
    CHECK(json["exit_code"] == 3);
    CHECK(json["reason"] == "exit");
    CHECK(json["seconds"] == 1.5);
    CHECK(json["culprit"] == Json({{"rank", 1},
                                   {"host", "node1"},
                                   {"local_rank", 1},
                                   {"pid", 1001},
                                   {"exit_code", 3},
                                   {"signal", nullptr},
                                   {"message", "exit 3"},
                                   {"stderr_tail", {"first", "second"}},
                                   {"failed_ranks", 1},
                                   {"seconds_before_next", nullptr},
                                   {"same_ranks", Json::array()}}));
    CHECK(json["ranks"].size() == 6);
    CHECK(json["ranks"][0] == Json({{"rank", 0},
                                    {"host", "node1"},
                                    {"pid", 1000},
                                    {"exit_code", nullptr},
                                    {"signal", "SIGTERM"},
                                    {"class", "stopped"},
                                    {"seconds", 0.0},
                                    {"max_rss_bytes", 0}}));
    CHECK(json["hosts"] == Json::array({{{"host", "node1"}, {"state", "ok"}, {"error", nullptr}}}));
    CHECK(json["survivors"] == Json::array());
    CHECK(json["unswept"] == Json::array());
}

TEST_CASE("the summary of a success has no reason and no culprit") {
    const auto json = Json::parse(format_summary(JobResult{}));

    CHECK(json["outcome"] == "success");
    CHECK(json["reason"].is_null());
    CHECK(json["culprit"].is_null());
}

TEST_CASE("bytes that are no text do not break the summary") {
    auto result = failed_job();
    result.culprit->stderr_tail = {"\xff\xfe"};

    CHECK(Json::parse(format_summary(result))["culprit"]["stderr_tail"][0] == "\uFFFD\uFFFD");
}

TEST_CASE("a summary appears whole, and nothing is left beside it") {
    const TempDir folder;
    const auto path = folder.path() / "summary.json";
    {
        auto file = ReservedFile::reserve(path);
        REQUIRE(file);
        CHECK_FALSE(std::filesystem::exists(path));

        REQUIRE(file->write(format_summary(failed_job())));
    }

    CHECK(TempDir::read(path) == format_summary(failed_job()));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a job that never writes its summary leaves what was there before") {
    const TempDir folder;
    const auto path = folder.write("summary.json", "old");
    REQUIRE(ReservedFile::reserve(path));

    CHECK(TempDir::read(path) == "old");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a summary that cannot be written is refused with its name") {
    const TempDir folder;

    const auto missing = ReservedFile::reserve(folder.path() / "no" / "summary.json");
    const auto directory = ReservedFile::reserve(folder.path());

    REQUIRE_FALSE(missing);
    CHECK(missing.error().code == hvd::Errc::invalid_argument);
    CHECK(missing.error().message.find("no/summary.json") != std::string::npos);
    CHECK_FALSE(directory);
}

TEST_CASE("a summary goes to where a link leads, and into what is no file") {
    const TempDir folder;
    const auto real = folder.write("real.json", "old");
    std::filesystem::create_symlink(real, folder.path() / "link.json");
    std::filesystem::create_symlink("/dev/null", folder.path() / "null");

    auto linked = ReservedFile::reserve(folder.path() / "link.json");
    auto device = ReservedFile::reserve(folder.path() / "null");
    REQUIRE(linked);
    REQUIRE(device);
    REQUIRE(linked->write(format_summary(failed_job())));
    REQUIRE(device->write(format_summary(failed_job())));

    CHECK(std::filesystem::is_symlink(folder.path() / "link.json"));
    CHECK(std::filesystem::is_symlink(folder.path() / "null"));
    CHECK(TempDir::read(real) == format_summary(failed_job()));
}
