// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/slots.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <vector>

using hvd::Errc;
using hvd::coll::Topology;
using hvd::launch::Capacity;
using hvd::launch::fill_hosts;
using hvd::launch::number_ranks;

namespace {

Capacity written(const char* host, int slots) {
    return {.host = host, .slots = slots, .is_written = true};
}

Capacity counted(const char* host, int slots) {
    return {.host = host, .slots = slots, .is_written = false};
}

}  // namespace

TEST_CASE("ranks fill one host before the next") {
    const std::vector hosts{written("a", 2), written("b", 4), written("c", 1)};

    CHECK(fill_hosts(hosts, 1).value() == std::vector{1, 0, 0});
    CHECK(fill_hosts(hosts, 5).value() == std::vector{2, 3, 0});
    CHECK(fill_hosts(hosts, 7).value() == std::vector{2, 4, 1});
    CHECK(fill_hosts(hosts, std::nullopt).value() == std::vector{2, 4, 1});
}

TEST_CASE("more ranks than written slots are refused with both numbers") {
    const auto refused = fill_hosts(std::vector{written("a", 2), written("b", 2)}, 5);

    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::invalid_argument);
    CHECK(refused.error().message ==
          "-np 5 is more than the 4 slots that were given (a:2,b:2); write more slots for a host, "
          "or a smaller -np");
}

TEST_CASE("a refusal names no host without slots") {
    const std::vector<Capacity> hosts{{"launch", 0}, {"a", 2}, {"vm", 0}};

    const auto ranks_on = fill_hosts(hosts, 9);

    REQUIRE_FALSE(ranks_on);
    CHECK_THAT(ranks_on.error().message, Catch::Contains("the 2 slots that were given (a:2);"));
}

TEST_CASE("slots that we counted may be exceeded, evenly") {
    CHECK(fill_hosts(std::vector{counted("a", 2)}, 5).value() == std::vector{5});
    CHECK(fill_hosts(std::vector{counted("a", 2), written("b", 2), counted("c", 4)}, 13).value() ==
          std::vector{5, 2, 6});
}

TEST_CASE("local and cross ranks follow from how many ranks each host has") {
    // 2 + 0 + 3 + 1 ranks: the second local rank exists on two hosts, the third on one.
    const auto ranks = number_ranks(std::vector{2, 0, 3, 1});

    const std::vector<Topology> expected{
        {.rank = 0, .size = 6, .local_rank = 0, .local_size = 2, .cross_rank = 0, .cross_size = 3},
        {.rank = 1, .size = 6, .local_rank = 1, .local_size = 2, .cross_rank = 0, .cross_size = 2},
        {.rank = 2, .size = 6, .local_rank = 0, .local_size = 3, .cross_rank = 1, .cross_size = 3},
        {.rank = 3, .size = 6, .local_rank = 1, .local_size = 3, .cross_rank = 1, .cross_size = 2},
        {.rank = 4, .size = 6, .local_rank = 2, .local_size = 3, .cross_rank = 0, .cross_size = 1},
        {.rank = 5, .size = 6, .local_rank = 0, .local_size = 1, .cross_rank = 2, .cross_size = 3},
    };
    CHECK(ranks == expected);
}
