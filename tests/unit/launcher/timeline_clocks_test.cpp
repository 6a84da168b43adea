// SPDX-License-Identifier: Apache-2.0
//
// The clocks of hosts: what horovodrun keeps of them, and how traces are aligned by that.
#include "launcher/timeline/align_clocks.hpp"
#include "launcher/timeline/clock_history.hpp"
#include "launcher/timeline/host_clocks.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

using hvd::launch::align_clocks;
using hvd::launch::ClockHistory;
using hvd::launch::ClockSample;
using hvd::launch::HostClocks;
using hvd::launch::parse_host_clocks;
using hvd::launch::RankClock;
using hvd::launch::TraceStart;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Ranks 0 and 1 on a, the machine of horovodrun; 2 and 3 on b; b's clock is 100 s ahead of a's.
std::vector<TraceStart> four_ranks() {
    const auto start = [](int rank, const char* host, const char* clock, std::int64_t steady_s) {
        return TraceStart{.rank = rank,
                          .size = 4,
                          .host = host,
                          .job = "j",
                          .clock = clock,
                          .steady_ns = steady_s * kSecond,
                          .wall_ns = 5000 * kSecond};
    };
    return {start(0, "a", "A", 10), start(1, "a", "A", 10), start(2, "b", "B", 110),
            start(3, "b", "B", 110)};
}

HostClocks measured() {
    return {.job = "j",
            .clock = "A",
            .steady_ns = 20 * kSecond,
            .wall_ns = 5010 * kSecond,
            .hosts = {{.host = "a", .ranks = {0, 1}, .samples = {{10 * kSecond, 1000, 2000}}},
                      {.host = "b",
                       .ranks = {2, 3},
                       .samples = {{10 * kSecond, 100 * kSecond, 2000},
                                   {20 * kSecond, 100 * kSecond + 1'000'000, 3000}}}}};
}

}  // namespace

TEST_CASE("a clock history keeps the most exact sample of each span, however long the job") {
    ClockHistory history;
    history.add({.at_ns = 1, .ahead_ns = 7, .error_ns = 50});
    history.add({.at_ns = 2, .ahead_ns = 8, .error_ns = 40});
    history.add({.at_ns = 3, .ahead_ns = 9, .error_ns = 60});
    CHECK(history.samples() == std::vector<ClockSample>{{2, 8, 40}});

    constexpr std::int64_t kDay = 86'400;
    for (std::int64_t second = 1; second < 3 * kDay; ++second) {
        history.add({.at_ns = second * kSecond, .ahead_ns = second, .error_ns = 100 - second % 7});
    }
    const auto& samples = history.samples();
    CHECK(samples.size() <= ClockHistory::kMost);
    CHECK(samples.size() >= ClockHistory::kMost / 2);
    CHECK(samples.front().at_ns < 3600 * kSecond);
    CHECK(samples.back().at_ns > (3 * kDay - 3600) * kSecond);
    for (std::size_t index = 1; index < samples.size(); ++index) {
        CHECK(samples[index - 1].at_ns < samples[index].at_ns);
        CHECK(samples[index].error_ns == 94);
    }
}

TEST_CASE("hosts.json has what it was written from, and other texts are refused") {
    const auto again = parse_host_clocks(to_json(measured()));
    REQUIRE(again);
    CHECK(*again == measured());
    const auto empty = parse_host_clocks(to_json(HostClocks{.job = "j", .hosts = {{.host = "h"}}}));
    REQUIRE(empty);
    CHECK(empty->hosts.front().ranks.empty());

    auto newer = to_json(measured());
    newer.replace(newer.find(R"("version":1)"), 11, R"("version":2)");
    CHECK_THAT(parse_host_clocks(newer).error().message, Catch::Contains("version 2"));
    for (const auto* text : {"", "{}", "[1]", R"({"version":1,"job":4})"}) {
        CHECK_FALSE(parse_host_clocks(text));
    }
}

TEST_CASE("ranks with the clock of horovodrun are not shifted, others as was measured") {
    const auto starts = four_ranks();
    const auto [clocks, warnings] = align_clocks(starts, measured());

    CHECK(warnings.empty());
    REQUIRE(clocks.size() == 4);
    CHECK(clocks[1].basis() == RankClock::Basis::same);
    CHECK(clocks[1].to_common(12 * kSecond) == 12 * kSecond);
    CHECK(clocks[3].basis() == RankClock::Basis::measured);
    CHECK(clocks[3].describe() == "clock measured to 0.003 ms");
    // Before the first sample, between the two, behind the last: the clock drifts.
    CHECK(clocks[3].to_common(101 * kSecond) == 1 * kSecond);
    CHECK(std::abs(clocks[3].to_common(115 * kSecond) - (15 * kSecond - 500'000)) < 100);
    CHECK(clocks[3].to_common(150 * kSecond) == 50 * kSecond - 1'000'000);
}

TEST_CASE("one clock needs no measurement, whatever its hosts are called") {
    auto starts = four_ranks();
    for (auto& start : starts) {
        start.clock = "A";
    }
    const auto [clocks, warnings] = align_clocks(starts, std::nullopt);
    CHECK(warnings.empty());
    for (const auto& clock : clocks) {
        CHECK(clock.basis() == RankClock::Basis::same);
        CHECK(clock.to_common(5) == 5);
    }
}

TEST_CASE("where nothing was measured wall clocks count, and that is said") {
    auto starts = four_ranks();
    starts[3].wall_ns += 2000;  // read a little later: one counts for all ranks of a clock
    const auto [clocks, warnings] = align_clocks(starts, std::nullopt);

    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], Catch::Contains("a (ranks 0-1)") && Catch::Contains("b (ranks 2-3)") &&
                                Catch::Contains("wall clocks"));
    CHECK(clocks[0].basis() == RankClock::Basis::wall);
    CHECK(clocks[0].to_common(10 * kSecond) == 5000 * kSecond);
    CHECK(clocks[2].to_common(111 * kSecond) == 5001 * kSecond);
    CHECK(clocks[3].to_common(111 * kSecond) == 5001 * kSecond);
}

TEST_CASE("a host that never answered is aligned by its wall clock, the others as measured") {
    auto known = measured();
    known.hosts[1].samples.clear();
    const auto starts = four_ranks();
    const auto [clocks, warnings] = align_clocks(starts, known);

    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], Catch::Contains("of b (ranks 2-3):"));
    CHECK(clocks[0].basis() == RankClock::Basis::same);
    CHECK(clocks[2].basis() == RankClock::Basis::wall);
    // Wall time 5000 s is 10 s of horovodrun's clock.
    CHECK(clocks[2].to_common(111 * kSecond) == 11 * kSecond);
}

TEST_CASE("of several hosts with one clock the one that was measured best counts for all") {
    auto known = measured();
    known.hosts[1].ranks = {2};
    known.hosts.push_back({.host = "c", .ranks = {3}, .samples = {{1, 99 * kSecond, 1500}}});
    auto starts = four_ranks();
    starts[3].host = "c";
    const auto clocks = align_clocks(starts, known).clocks;
    CHECK(clocks[2].to_common(100 * kSecond) == kSecond);
    CHECK(clocks[3].to_common(100 * kSecond) == kSecond);
}

TEST_CASE("a clock without a name is that of its host alone") {
    auto starts = four_ranks();
    for (auto& start : starts) {
        start.clock.clear();
    }
    const auto [clocks, warnings] = align_clocks(starts, measured());
    CHECK(warnings.empty());
    CHECK(clocks[0].basis() == RankClock::Basis::measured);  // nothing says that it is the same
    CHECK(clocks[0].to_common(11 * kSecond) == 11 * kSecond - 1000);
    CHECK(clocks[2].basis() == RankClock::Basis::measured);
}
