// SPDX-License-Identifier: Apache-2.0
//
// The command line of `horovodrun timeline`.
#include "tests/unit/launcher/command_lines.hpp"

#include <catch2/catch.hpp>

#include <string_view>
#include <variant>

using hvd::launch::error;
using hvd::launch::MergeTimelines;
using hvd::launch::parse_command_line;
using hvd::launch::PrintAndExit;
using hvd::launch::request;
using hvd::launch::Words;
using hvd::launch::words;

namespace {

MergeTimelines merge(std::string_view text) {
    const auto parsed = parse_command_line(words(text), {});
    INFO((parsed ? "" : parsed.error().message));
    REQUIRE(parsed);
    const auto* merge = std::get_if<MergeTimelines>(&*parsed);
    REQUIRE(merge != nullptr);
    return *merge;
}

}  // namespace

TEST_CASE("timeline is a command of its own as the very first word only") {
    CHECK(merge("timeline traces") == MergeTimelines{.folder = "traces"});
    const MergeTimelines both{.folder = "traces", .output = "all.json"};
    for (const auto* text :
         {"timeline traces -o all.json", "timeline -o all.json traces",
          "timeline --output=all.json traces", "timeline traces --output all.json"}) {
        CHECK(merge(text) == both);
    }
    CHECK(merge("timeline -- -traces") == MergeTimelines{.folder = "-traces"});

    CHECK(request("-np 1 timeline traces").command == Words{"timeline", "traces"});
    CHECK(request("-np 1 -- timeline").command == Words{"timeline"});
}

TEST_CASE("timeline --help is a page of its own and names the exit codes") {
    for (const auto* text : {"timeline --help", "timeline -h", "timeline traces -h"}) {
        const auto parsed = parse_command_line(words(text), {});
        REQUIRE(parsed);
        const auto* page = std::get_if<PrintAndExit>(&*parsed);
        REQUIRE(page != nullptr);
        CHECK_THAT(page->text, Catch::StartsWith("Usage: horovodrun timeline"));
        for (const auto* code : {"0 merged", "2 wrong usage", "125 ", "141 "}) {
            CHECK_THAT(page->text, Catch::Contains(code));
        }
    }
    CHECK(std::holds_alternative<PrintAndExit>(*parse_command_line({"--help"}, {})));
}

TEST_CASE("timeline refuses a missing folder, two folders and flags that it does not have") {
    CHECK_THAT(error("timeline"), Catch::Contains("name the folder of --timeline-all"));
    CHECK_THAT(error("timeline "), Catch::Contains("name the folder of --timeline-all"));
    CHECK_THAT(error("timeline a -o "), Catch::Contains("-o is empty"));
    CHECK_THAT(error("timeline a b"), Catch::Contains("more than one folder: a and b"));
    CHECK_THAT(error("timeline a -o"), Catch::Contains("timeline: ") && Catch::Contains("output"));
    CHECK_THAT(error("timeline a --outpt b"), Catch::Contains("--outpt"));
    CHECK_THAT(error("timeline -np 2 a"), Catch::Contains("-n"));
}
