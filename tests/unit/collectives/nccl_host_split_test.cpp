// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/host_split.hpp"

#include <catch2/catch.hpp>

#include <vector>

using hvd::coll::ProcessSet;
using hvd::coll::nccl::HostSplit;
using hvd::coll::nccl::split_by_host;

namespace {

/// Of ranks 10, 11, and so on.
HostSplit split_at(int place, std::vector<int> hosts) {
    ProcessSet set{.id = 3, .ranks = {}, .place = place, .hosts = std::move(hosts)};
    set.incarnation = 7;
    for (std::size_t index = 0; index < set.hosts.size(); ++index) {
        set.ranks.push_back(10 + static_cast<int>(index));
    }
    return split_by_host(set);
}

}  // namespace

TEST_CASE("where hosts have as many members each, every member has a part") {
    const auto split = split_at(3, {0, 0, 5, 5});

    CHECK(split.parts == 2);
    CHECK(split.inside.ranks == std::vector{12, 13});
    CHECK(split.inside.place == 1);
    CHECK(split.inside.is_on_one_host());
    CHECK(split.across.ranks == std::vector{11, 13});
    CHECK(split.across.hosts == std::vector{0, 5});
    CHECK(split.across.place == 1);
    CHECK(split.has_part());
    CHECK(split.is_scattered());
}

TEST_CASE("members of a host need not follow each other") {
    const auto split = split_at(2, {0, 1, 0, 1});

    CHECK(split.inside.ranks == std::vector{10, 12});
    CHECK(split.across.ranks == std::vector{12, 13});
    CHECK(split.across.place == 0);
}

TEST_CASE("where hosts have different numbers of members, the first of each has the whole") {
    const auto first = split_at(0, {0, 0, 1});
    const auto second = split_at(1, {0, 0, 1});
    const auto alone = split_at(2, {0, 0, 1});

    CHECK(first.parts == 1);
    CHECK(first.across.ranks == std::vector{10, 12});
    CHECK(first.has_part());
    CHECK_FALSE(first.is_scattered());
    CHECK_FALSE(second.has_part());
    CHECK(second.inside.ranks == std::vector{10, 11});
    CHECK(alone.inside.ranks == std::vector{12});
    CHECK(alone.across.place == 1);
}

TEST_CASE("with one member on each host all have the whole") {
    const auto split = split_at(1, {4, 6, 9});

    CHECK(split.parts == 1);
    CHECK(split.inside.ranks == std::vector{11});
    CHECK(split.across.ranks == std::vector{10, 11, 12});
}

TEST_CASE("the members across hosts are a set of their own, of the same incarnation") {
    const auto split = split_at(0, {0, 0, 1, 1});

    CHECK(split.across.id == -4);
    CHECK(split.across.incarnation == 7);
    CHECK(split.inside.id == 3);
}
