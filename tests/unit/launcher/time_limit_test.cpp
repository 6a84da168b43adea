// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/time_limit.hpp"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using hvd::launch::time_limit;

namespace {

constexpr std::int64_t kNow = 1'700'000'000;

std::optional<hvd::launch::TimeLimit> limit(std::optional<std::chrono::milliseconds> timeout,
                                            std::optional<std::int64_t> end) {
    return time_limit({.timeout = timeout, .allocation_end = end},
                      std::chrono::system_clock::time_point(std::chrono::seconds(kNow)));
}

}  // namespace

TEST_CASE("the sooner of --timeout and the end of the allocation is the time limit, and says so") {
    CHECK_FALSE(limit(std::nullopt, std::nullopt));
    CHECK(limit(1500ms, std::nullopt)->left == 1500ms);
    CHECK(limit(1500ms, std::nullopt)->words ==
          "the time limit of the job (--timeout), 1.5 s, has passed");
    CHECK(limit(60s, kNow + 60)->words.find("--timeout") != std::string::npos);

    const auto allocation = limit(61s, kNow + 60);
    CHECK(allocation->left == 60s);
    CHECK(allocation->words.find("--timeout") == std::string::npos);
    CHECK_THAT(allocation->words, Catch::StartsWith("the allocation ends at 2023-11-1") &&
                                      Catch::Contains("(SLURM_JOB_END_TIME)"));
}

TEST_CASE("an end of the allocation that has passed or is far off is none") {
    constexpr std::int64_t kTwoYears = 2LL * 366 * 24 * 3600;
    for (const auto end : {std::int64_t{0}, std::int64_t{-1}, kNow - 1, kNow, kNow + kTwoYears}) {
        CAPTURE(end);
        CHECK_FALSE(limit(std::nullopt, end));
        CHECK(limit(60s, end)->left == 60s);
    }
}
