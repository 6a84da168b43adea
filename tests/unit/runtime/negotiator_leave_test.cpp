// SPDX-License-Identifier: Apache-2.0
//
// Ranks that leave. This one is rank 1 of 3; set 1 is {0, 1}, set 2 is {1, 2}.
#include "tests/unit/runtime/negotiator_fixture.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::Errc;
using hvd::rt::Kind;
using hvd::test::FakeChannel;
using hvd::test::has_failed;
using hvd::test::NegotiatorFixture;
using hvd::test::Operations;
namespace event = hvd::rt::event;
using Ids = FakeChannel::Ids;
using Urgency = NegotiatorFixture::Urgency;

TEST_CASE("a rank that leaves ends the sets that it is in") {
    NegotiatorFixture rank;
    rank.teach("cached", 1);
    rank.teach("cached", 2, 1);
    auto& of_world = rank.submit("cached");
    auto& of_others = rank.submit("cached", 1);
    auto& announced = rank.submit("new", 2);

    CHECK(rank.read(event::Left{2}).empty());

    CHECK(has_failed(of_world));
    CHECK(of_world.error.code == Errc::aborted);
    CHECK(of_world.error.message.find("rank 2 has shut down while 'cached' waited for it") == 0);
    CHECK(has_failed(announced));
    CHECK_FALSE(hvd::rt::TicketTable::is_done(of_others));
    CHECK_FALSE(rank.negotiator->left_rank());
    CHECK(rank.channel.forgiven == std::vector{2});
    CHECK(rank.ended == std::vector<std::vector<int>>{{0, 2}, {2, 2}});
    CHECK(rank.missed == std::vector{2, 2});  // once for each

    // A decision about a set that has ended is passed over; the other set goes on.
    CHECK(rank.read(event::Ready{.ids = {1}, .of_world = true}).empty());
    CHECK(rank.read(NegotiatorFixture::decided(
                        NegotiatorFixture::decision(rank.channel.announced.back())))
              .empty());
    CHECK(rank.read(event::Ready{.ids = {2}}) == Operations{&of_others});
    CHECK(has_failed(rank.submit("later", 0, Urgency::awaited)));
    CHECK(has_failed(rank.submit("later", 2)));
    CHECK(has_failed(rank.submit(Kind::join)));
}

TEST_CASE("once every set has ended nothing more is executed") {
    NegotiatorFixture rank;
    (void)rank.read(event::Left{2});
    CHECK_FALSE(rank.negotiator->left_rank());
    (void)rank.read(event::Left{0});
    CHECK(rank.negotiator->left_rank() == 0);
    CHECK(rank.channel.forgiven == std::vector{2});
}

TEST_CASE("the departure of rank 0 is not forgiven, since it coordinates the other sets") {
    NegotiatorFixture rank;
    auto& of_others = rank.submit("x", 2);

    (void)rank.read(event::Left{0});

    CHECK_FALSE(hvd::rt::TicketTable::is_done(of_others));
    CHECK_FALSE(rank.negotiator->left_rank());
    CHECK(rank.channel.forgiven.empty());
}

TEST_CASE("a proposal and a join fail with the world") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    SECTION("a proposal") {
        auto& proposed = rank.submit("a", 0, Urgency::awaited);
        CHECK(rank.negotiator->is_proposing());
        (void)rank.read(event::Left{2});
        CHECK(has_failed(proposed));
    }
    SECTION("a join, after which other sets work again") {
        auto& join = rank.submit(Kind::join);
        auto& of_world = rank.submit("b");
        auto& of_others = rank.submit("b", 1);
        (void)rank.read(event::Left{2});
        CHECK(has_failed(join));
        CHECK(has_failed(of_world));
        REQUIRE_FALSE(rank.channel.announced.empty());
        CHECK(rank.channel.announced.back().process_set == 1);
        CHECK(rank.read(NegotiatorFixture::decided(NegotiatorFixture::decision(
                  rank.channel.announced.back()))) == Operations{&of_others});
    }
    CHECK_FALSE(rank.negotiator->is_proposing());
    CHECK_FALSE(rank.negotiator->has_open());
}

TEST_CASE("a set that is added after the world has ended has ended, too") {
    NegotiatorFixture rank;
    (void)rank.submit(Kind::add_process_set, -1, {1});
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front());
    decision.set_id = 7;
    (void)rank.read(event::Left{2});

    CHECK(rank.read(NegotiatorFixture::decided(decision)).empty());

    REQUIRE(rank.sets.find(7) != nullptr);
    CHECK(has_failed(rank.submit("x", 7)));
}
