// SPDX-License-Identifier: Apache-2.0
//
// Process sets that come and go.
#include "tests/unit/runtime/negotiator_fixture.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::Errc;
using hvd::Error;
using hvd::rt::Kind;
using hvd::test::FakeChannel;
using hvd::test::has_failed;
using hvd::test::NegotiatorFixture;
using hvd::test::Operations;
namespace event = hvd::rt::event;
using Ids = FakeChannel::Ids;

namespace {

/// The ranks agree to remove set 1.
void remove_set_1(NegotiatorFixture& rank) {
    auto& removal = rank.submit(Kind::remove_process_set, 1);
    auto decision = NegotiatorFixture::decision(rank.channel.announced.back());
    decision.set_id = 1;
    CHECK(rank.read(NegotiatorFixture::decided(decision)).empty());
    CHECK(hvd::rt::TicketTable::is_done(removal));
    CHECK_FALSE(removal.failed);
}

}  // namespace

TEST_CASE("a set exists from its entry in the log on") {
    NegotiatorFixture rank;
    auto& addition = rank.submit(Kind::add_process_set, -1, {2, 0});
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front());
    decision.set_id = 7;
    CHECK(rank.sets.find(7) == nullptr);

    CHECK(rank.read(NegotiatorFixture::decided(decision)).empty());

    CHECK(hvd::rt::TicketTable::is_done(addition));
    CHECK(addition.signature.root == 7);
    REQUIRE(rank.sets.find(7) != nullptr);
    CHECK(rank.sets.find(7)->set.ranks == std::vector{0, 2});
    CHECK_FALSE(rank.sets.find(7)->set.is_member());
    REQUIRE(rank.channel.added.size() == 1);
    CHECK(rank.channel.added.front().id == 7);
    CHECK(rank.channel.rounds == 1);
    CHECK_FALSE(rank.negotiator->has_open());
}

TEST_CASE("an addition that is refused names the equal set") {
    NegotiatorFixture rank;
    auto& addition = rank.submit(Kind::add_process_set, -1, {0, 1});
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front());
    decision.set_id = 1;
    decision.error = Error{Errc::invalid_argument, "exists"};

    (void)rank.read(NegotiatorFixture::decided(decision));

    CHECK(has_failed(addition));
    CHECK(addition.signature.root == 1);
    CHECK(rank.channel.added.empty());
}

TEST_CASE("the removal of a set fails what was not agreed, and names the set") {
    NegotiatorFixture rank;
    rank.teach("cached", 1, 1);
    rank.teach("of the world", 2);
    auto& announced = rank.submit("new", 1);
    auto& ready = rank.submit("cached", 1);
    rank.full = {1};
    auto& held = rank.submit("held", 1);

    remove_set_1(rank);

    for (const auto* operation : {&announced, &ready, &held}) {
        CAPTURE(operation->name->text);
        CHECK(has_failed(*operation));
        CHECK(operation->error.code == Errc::aborted);
        CHECK(operation->error.message == "process set 1 has been removed");
    }
    CHECK(rank.sets.find(1) == nullptr);
    CHECK(rank.closed == std::vector{1});
    CHECK(rank.channel.removed == std::vector{1});
    (void)rank.step();
    CHECK_FALSE(rank.negotiator->has_open());
    // The world's id still counts, and the set's does not.
    auto& other = rank.submit("of the world");
    CHECK(rank.read(event::Ready{.ids = {1, 2}, .of_world = true}) == Operations{&other});
}

TEST_CASE("what was agreed before the removal is executed") {
    NegotiatorFixture rank;
    rank.teach("a", 1, 1);
    auto& operation = rank.submit("a", 1);
    CHECK(rank.read(event::Ready{.ids = {1}, .of_world = false}) == Operations{&operation});

    remove_set_1(rank);

    CHECK_FALSE(hvd::rt::TicketTable::is_done(operation));
    CHECK(operation.set->set.id == 1);  // still there
    CHECK(operation.set->is_removed);
}

TEST_CASE("an operation that was submitted when its set still was there fails") {
    NegotiatorFixture rank;
    const bool is_awaited = GENERATE(false, true);
    const auto late = rank.make({rank.request("late", 1)});  // on its way to the engine

    remove_set_1(rank);
    rank.channel.announced.clear();
    rank.negotiator->submit(late, is_awaited ? NegotiatorFixture::Urgency::awaited
                                             : NegotiatorFixture::Urgency::background);

    CHECK(has_failed(*late.front()));
    CHECK(late.front()->error.message == "process set 1 has been removed");
    CHECK(rank.channel.announced.empty());
    CHECK_FALSE(rank.negotiator->has_open());
}

TEST_CASE("the same name in two sets is agreed on in each") {
    NegotiatorFixture rank;
    auto& first = rank.submit("a", 1);
    auto& second = rank.submit("a", 2);
    REQUIRE(rank.channel.announced.size() == 2);

    const auto of_second =
        NegotiatorFixture::decided(NegotiatorFixture::decision(rank.channel.announced[1], 5));
    CHECK(rank.read(of_second) == Operations{&second});
    rank.tickets.complete(second);
    CHECK(rank.channel.rounds == 0);  // of no world
    (void)rank.submit("a", 2);
    CHECK(rank.channel.ready == std::vector<Ids>{{5}});
    CHECK(rank.channel.ready_sets == std::vector{2});
    CHECK_FALSE(hvd::rt::TicketTable::is_done(first));
}
