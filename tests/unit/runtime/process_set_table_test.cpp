// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/process_set_table.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

using hvd::coll::ProcessSet;
using hvd::rt::make_process_set;
using hvd::rt::ProcessSetTable;

namespace {

/// Five ranks on three hosts, as rank 3 sees them.
const ProcessSet kWorld{.id = 0, .ranks = {0, 1, 2, 3, 4}, .place = 3, .hosts = {0, 0, 1, 1, 2}};

using Ranks = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a set is made of the world's ranks, in any order, with their hosts") {
    const auto set = make_process_set(7, Ranks{3, 0, 2}, kWorld);

    CHECK(set.id == 7);
    CHECK(set.ranks == std::vector{0, 2, 3});
    CHECK(set.hosts == std::vector{0, 1, 1});
    CHECK(set.place == 2);
    CHECK(make_process_set(8, Ranks{4, 1}, kWorld).place == -1);
}

TEST_CASE("sets are found by id and by ranks, the world as any other") {
    ProcessSetTable table(kWorld);
    (void)table.add(2, Ranks{3, 1});
    (void)table.add(5, Ranks{4});

    CHECK(table.ids() == std::vector{0, 2, 5});
    CHECK(*table.ranks(2) == std::vector{1, 3});
    CHECK(table.ranks(0)->size() == 5);
    CHECK(table.find_equal(Ranks{1, 3}) == 2);
    CHECK(table.find_equal(Ranks{4, 3, 2, 1, 0}) == 0);
    CHECK_FALSE(table.find_equal(Ranks{1, 2}));
    CHECK(table.find(5)->set.ranks == std::vector{4});
    CHECK(table.find(1) == nullptr);
}

TEST_CASE("an id that no set has is the caller's mistake") {
    const ProcessSetTable table(kWorld);

    const auto none = table.acquire(3);

    REQUIRE_FALSE(none);
    CHECK(none.error().code == hvd::Errc::invalid_argument);
    CHECK(none.error().message == "there is no process set 3");
    CHECK_FALSE(table.ranks(-1));
}

TEST_CASE("a removed set stays where it is while an operation holds it") {
    ProcessSetTable table(kWorld);
    (void)table.add(1, Ranks{0, 3});
    auto* const entry = *table.acquire(1);
    auto* const lane = *table.acquire(1);

    table.remove(1);
    CHECK(entry->is_removed);
    CHECK(entry->set.ranks == std::vector{0, 3});
    CHECK_FALSE(table.acquire(1));
    CHECK(table.find(1) == nullptr);
    CHECK(table.ids() == std::vector{0});

    // Others come and go: what is held outlives them.
    ProcessSetTable::release(*lane);
    (void)table.add(2, Ranks{0, 3});
    table.remove(2);
    CHECK(entry->users == 1);
    CHECK(entry->set.id == 1);
    ProcessSetTable::release(*entry);
    (void)table.add(3, Ranks{0});  // frees it: under sanitizers nothing leaks
}

TEST_CASE("a set differs from an earlier one with its id") {
    ProcessSetTable table(kWorld);
    const auto first = table.add(1, Ranks{0, 3});
    const auto beside = table.add(2, Ranks{1, 3});
    CHECK(table.find(1)->set.incarnation == table.find(2)->set.incarnation);

    table.remove(2);
    table.remove(1);
    const auto second = table.add(1, Ranks{0, 3});

    CHECK(second.id == first.id);
    CHECK(second.incarnation != first.incarnation);
    CHECK(table.add(2, Ranks{1, 3}).incarnation != beside.incarnation);
}

TEST_CASE("the world cannot be removed") {
    ProcessSetTable table(kWorld);

    table.remove(0);

    CHECK(table.ids() == std::vector{0});
    CHECK(table.acquire(0));
    CHECK_FALSE(table.world().is_removed);
}
