// SPDX-License-Identifier: Apache-2.0
//
// The traces of ranks become one.
#include "launcher/timeline/host_clocks.hpp"
#include "launcher/timeline/merge_traces.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include <nlohmann/json.hpp>

using hvd::Errc;
using hvd::launch::HostClocks;
using hvd::launch::merge_traces;
using hvd::test::TempDir;
using nlohmann::json;

namespace {

/// The differences between the files of a test.
struct Trace {
    int rank = 0;
    int size = 2;
    std::string host = "a";
    std::string job = "j";
    std::string clock = "A";
    std::int64_t steady_us = 1000;
    std::int64_t wall_us = 1'000'000;
};

std::string text_of(const Trace& trace, std::string_view more = "") {
    const json start{{"name", "process_name"},
                     {"ph", "M"},
                     {"pid", 0},
                     {"args",
                      {{"start_time_since_epoch_in_micros", trace.wall_us},
                       {"start_monotonic_micros", trace.steady_us},
                       {"rank", trace.rank},
                       {"size", trace.size},
                       {"host", trace.host},
                       {"job", trace.job},
                       {"clock", trace.clock}}}};
    return "[\n" + start.dump() + R"(,
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad"}},
{"name": "process_sort_index", "ph": "M", "pid": 1, "args": {"sort_index": 1}},
{"ph": "B", "name": "ALLREDUCE", "ts": 10.125, "pid": 1},
{"ph": "E", "ts": 12.500, "pid": 1, "args": {"dtype": "float32"}},
{"ph": "i", "name": "CYCLE_START", "s": "g", "ts": 13.000, "pid": 0})" +
           std::string(more) + "\n]\n";
}

void write(const TempDir& folder, const Trace& trace, std::string_view more = "") {
    (void)folder.write("rank-" + std::to_string(trace.rank) + ".json", text_of(trace, more));
}

struct Merged {
    json trace;
    std::vector<std::string> warnings;

    /// The events of a rank with this phase.
    [[nodiscard]] std::vector<json> of(int rank, std::string_view phase) const {
        std::vector<json> found;
        for (const auto& event : trace.at("traceEvents")) {
            if (event.at("pid") == rank && event.at("ph") == phase) {
                found.push_back(event);
            }
        }
        return found;
    }
};

Merged merge(const TempDir& folder) {
    std::string text;
    auto warnings = merge_traces(folder.path(), [&](std::string_view piece) {
        text += piece;
        return hvd::ok();
    });
    INFO((warnings ? "" : warnings.error().message));
    REQUIRE(warnings);
    Merged merged{.trace = json::parse(text), .warnings = *warnings};
    CHECK(merged.trace.at("otherData").at("warnings") == merged.warnings);
    return merged;
}

/// Why a folder is refused.
hvd::Error refusal(const std::filesystem::path& folder) {
    const auto merged = merge_traces(folder, [](std::string_view) { return hvd::ok(); });
    REQUIRE_FALSE(merged);
    return merged.error();
}

std::string name_in(const json& event) {
    return event.at("args").at("name").get<std::string>();
}

}  // namespace

TEST_CASE("each rank is a process with a name, its tensors are threads") {
    const TempDir folder;
    write(folder, {.rank = 0});
    write(folder, {.rank = 1, .steady_us = 1500});

    const auto merged = merge(folder);

    CHECK(merged.warnings.empty());
    for (const int rank : {0, 1}) {
        std::vector<std::string> names;
        for (const auto& event : merged.of(rank, "M")) {
            const auto name = event.at("name").get<std::string>();
            if (name.ends_with("_name")) {
                names.push_back(name + " " + std::to_string(event.value("tid", -1)) + " " +
                                name_in(event));
            }
        }
        CHECK(names ==
              std::vector<std::string>{"process_name -1 rank " + std::to_string(rank) + " (a)",
                                       "thread_name 0 engine", "thread_name 1 grad"});
        CHECK(merged.of(rank, "E").at(0).at("args").at("dtype") == "float32");
        CHECK(merged.of(rank, "i").at(0).at("s") == "p");
        CHECK(merged.of(rank, "B").at(0).at("tid") == 1);
    }
    // The first rank's beginning is 0; rank 1 began 500 us later by the same clock.
    CHECK(merged.of(0, "B").at(0).at("ts").dump() == "10.125");
    CHECK(merged.of(1, "B").at(0).at("ts").dump() == "510.125");
    CHECK(merged.trace.at("otherData").at("job") == "j");
    CHECK(merged.trace.at("otherData").at("clocks") ==
          json{{"rank 0", "same"}, {"rank 1", "same"}});
}

TEST_CASE("ranks of another host are put onto horovodrun's clock by what it measured") {
    const TempDir folder;
    write(folder, {.rank = 0});
    write(folder, {.rank = 1, .host = "b", .clock = "B", .steady_us = 900'001'000});
    (void)folder.write(
        "hosts.json",
        to_json(HostClocks{
            .job = "j",
            .clock = "A",
            .hosts = {{.host = "b", .ranks = {1}, .samples = {{0, 900'000'000'000, 20'000}}}}}));

    const auto merged = merge(folder);

    CHECK(merged.warnings.empty());
    CHECK(merged.of(1, "B").at(0).at("ts").dump() == "10.125");
    CHECK(merged.trace.at("otherData").at("clocks").at("rank 1") == "measured");
    const auto about = merged.of(1, "M");
    CHECK(std::ranges::any_of(about, [](const json& event) {
        return event.at("name") == "process_labels" &&
               event.at("args").at("labels") == "clock measured to 0.020 ms";
    }));
}

TEST_CASE("without hosts.json, or with that of another job, wall clocks align hosts") {
    const TempDir folder;
    write(folder, {.rank = 0});
    write(folder, {.rank = 1, .host = "b", .clock = "B", .steady_us = 77, .wall_us = 1'000'250});

    const auto merged = merge(folder);
    REQUIRE(merged.warnings.size() == 2);
    CHECK_THAT(merged.warnings[0], Catch::Contains("there is no") && Catch::Contains("hosts.json"));
    CHECK_THAT(merged.warnings[1], Catch::Contains("wall clocks"));
    CHECK(merged.of(1, "B").at(0).at("ts").dump() == "260.125");
    CHECK(merged.trace.at("otherData").at("clocks").at("rank 1") == "wall");

    for (const auto& [text, why] : {std::pair(to_json(HostClocks{.job = "k"}), "of another job"),
                                    std::pair(std::string("{"), "cannot be used")}) {
        (void)folder.write("hosts.json", text);
        const auto again = merge(folder);
        REQUIRE(again.warnings.size() == 2);
        CHECK_THAT(again.warnings[0], Catch::Contains(why));
        CHECK(again.of(1, "B").at(0).at("ts").dump() == "260.125");
    }
}

TEST_CASE("ranks without a file are named") {
    const TempDir folder;
    write(folder, {.rank = 1, .size = 6});
    const auto merged = merge(folder);
    CHECK(merged.warnings == std::vector<std::string>{"no file of 5 of 6 ranks: 0,2-5"});
    CHECK(merged.of(1, "B").size() == 1);
}

TEST_CASE("a file that ends too early gives the events before, and a warning") {
    const TempDir folder;
    write(folder, {.rank = 0});
    const auto whole = text_of({.rank = 1});
    const auto cut = whole.find(R"({"ph": "E")");
    for (const auto at : {cut + 7, cut - 1, cut - 2}) {  // in an object, behind a comma, before it
        (void)folder.write("rank-1.json", whole.substr(0, at));
        const auto merged = merge(folder);
        REQUIRE(merged.warnings.size() == 1);
        CHECK_THAT(merged.warnings[0],
                   Catch::StartsWith("the last events of rank 1 are missing: ") &&
                       Catch::Contains("rank-1.json is cut or damaged: it ends at about byte " +
                                       std::to_string(at)));
        CHECK(merged.of(1, "B").size() == 1);
        CHECK(merged.of(1, "E").empty());
        CHECK(merged.of(0, "E").size() == 1);
    }
}

TEST_CASE("a folder without traces is refused") {
    const TempDir folder;
    const auto missing = refusal(folder.path() / "none");
    CHECK(missing.code == Errc::invalid_argument);
    CHECK_THAT(missing.message, Catch::Contains("none: No such file"));
    (void)folder.write("rank-0.txt", "[]");
    CHECK_THAT(refusal(folder.path()).message,
               Catch::Contains("there is no rank-N.json in") && Catch::Contains("--timeline-all"));
    CHECK_THAT(refusal(folder.path() / "rank-0.txt").message, Catch::Contains("Not a directory"));
}

TEST_CASE("files that are no traces of ranks are refused by name") {
    for (const auto* text : {"", "[]", "{}", "[1]", "no JSON", R"([{"ph": "B", "ts": 1}])",
                             R"([{"args": {"rank": "zero"}}])"}) {
        const TempDir folder;
        (void)folder.write("rank-0.json", text);
        const auto error = refusal(folder.path());
        CHECK(error.code == Errc::invalid_argument);
        CHECK_THAT(error.message, Catch::Contains("rank-0.json is not the trace of a rank: ") &&
                                      Catch::Contains("take it out of the folder"));
    }
    const TempDir folder;
    write(folder, {.rank = 0, .size = 1}, R"(,{"ph": "B", "ts": "late", "pid": 1})");
    CHECK_THAT(refusal(folder.path()).message,
               Catch::Contains("late") && Catch::Contains("is no trace event"));
}

TEST_CASE("what is no file, or cannot be read, is said at once") {
    const TempDir folder;
    const auto file = folder.path() / "rank-0.json";
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    const auto pipe = refusal(folder.path());
    CHECK(pipe.code == Errc::invalid_argument);
    CHECK_THAT(pipe.message, Catch::Contains("rank-0.json") && Catch::Contains("no regular file"));

    for (const auto& [target, why] : {std::pair("nowhere", "No such file"),
                                      std::pair("/proc/self/mem", "Input/output error")}) {
        std::filesystem::remove(file);
        std::filesystem::create_symlink(target, file);
        const auto error = refusal(folder.path());
        CHECK(error.code == Errc::unavailable);
        CHECK_THAT(error.message, Catch::Contains("rank-0.json") && Catch::Contains(why));
    }
}

TEST_CASE("two files of one rank, and files of two jobs, are refused") {
    const TempDir folder;
    write(folder, {.rank = 0});
    (void)folder.write("rank-00.json", text_of({.rank = 0}));
    const auto twice = refusal(folder.path());
    CHECK(twice.code == Errc::invalid_argument);
    CHECK_THAT(twice.message, Catch::Contains("rank 0 has two files") &&
                                  Catch::Contains("rank-0.json") &&
                                  Catch::Contains("rank-00.json"));

    for (const auto& other : {Trace{.rank = 1, .job = "k"}, Trace{.rank = 1, .size = 3}}) {
        const TempDir jobs;
        write(jobs, {.rank = 0});
        write(jobs, other);
        const auto error = refusal(jobs.path());
        CHECK(error.code == Errc::invalid_argument);
        CHECK_THAT(error.message, Catch::Contains("different jobs") &&
                                      Catch::Contains("rank-0.json is of job j of 2 ranks"));
    }
}

TEST_CASE("what the merged trace cannot be written to ends the merge") {
    const TempDir folder;
    write(folder, {.rank = 0, .size = 1});
    const auto merged = merge_traces(folder.path(), [](std::string_view) -> hvd::Status {
        return hvd::Error{Errc::unavailable, "full"};
    });
    REQUIRE_FALSE(merged);
    CHECK(merged.error().message == "full");
}
