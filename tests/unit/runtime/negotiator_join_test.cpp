// SPDX-License-Identifier: Apache-2.0
//
// A rank that joins, and those that go on without it.
#include "tests/unit/runtime/negotiator_fixture.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

using hvd::coll::ReduceOp;
using hvd::rt::Decision;
using hvd::rt::Kind;
using hvd::test::FakeChannel;
using hvd::test::NegotiatorFixture;
using hvd::test::Operations;
namespace event = hvd::rt::event;
using Ids = FakeChannel::Ids;

namespace {

event::Decided joined(int rank, bool is_last = false) {
    Decision decision;
    decision.members = {{.name = "join", .signature = {.kind = Kind::join}}};
    decision.rank = rank;
    decision.ends_join = is_last;
    return NegotiatorFixture::decided(decision);
}

/// An operation that other ranks agree on without this one.
Decision without_this_rank(ReduceOp reduce = ReduceOp::sum) {
    Decision decision;
    decision.members = {{.name = "x", .signature = {.reduce = reduce, .shape = {3}}}};
    decision.first_dims.resize(1);
    decision.joined = {1};
    return decision;
}

}  // namespace

TEST_CASE("a join is announced once nothing that the rank has submitted is open") {
    NegotiatorFixture rank;
    rank.teach("a", 1, 1);
    auto& open = rank.submit("a", 1);

    (void)rank.submit(Kind::join);
    CHECK(rank.step().empty());
    CHECK(rank.channel.announced.empty());
    CHECK(rank.read(event::Ready{.ids = {1}, .of_world = false}) == Operations{&open});
    CHECK(rank.step().empty());

    REQUIRE(rank.channel.announced.size() == 1);
    CHECK(rank.channel.announced.front().members.front().signature.kind == Kind::join);
    CHECK(rank.channel.refusals == 1);
    (void)rank.step();
    CHECK(rank.channel.announced.size() == 1);
}

TEST_CASE("a join waits for what is held back, too") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.full = {0};
    (void)rank.submit("a");
    (void)rank.submit(Kind::join);

    (void)rank.step();

    CHECK(rank.channel.announced.empty());
}

TEST_CASE("what a rank submits after its join waits until all have joined") {
    NegotiatorFixture rank;
    rank.teach("a", 1, 1);
    auto& join = rank.submit(Kind::join);
    (void)rank.step();

    auto& later = rank.submit("a", 1);
    CHECK(rank.channel.ready.empty());
    (void)rank.read(joined(1));
    (void)rank.read(joined(0));
    CHECK_FALSE(hvd::rt::TicketTable::is_done(join));
    CHECK(rank.channel.announced.size() == 1);
    (void)rank.read(joined(2, true));

    CHECK(hvd::rt::TicketTable::is_done(join));
    std::int32_t last = -1;
    std::memcpy(&last, join.out, sizeof last);
    CHECK(last == 2);
    CHECK(shape_of_result(join).empty());
    CHECK(rank.channel.announced.size() == 2);  // by name: the id was taken back
    auto decision = NegotiatorFixture::decision(rank.channel.announced.back());
    CHECK(rank.read(NegotiatorFixture::decided(decision)) == Operations{&later});
}

TEST_CASE("a rank that has joined takes part with what changes nothing") {
    NegotiatorFixture rank;
    (void)rank.submit(Kind::join);
    (void)rank.step();
    (void)rank.read(joined(1));

    const auto ready = rank.read(NegotiatorFixture::decided(without_this_rank(ReduceOp::product)));

    REQUIRE(ready.size() == 1);
    auto& neutral = *ready.front();
    CHECK(neutral.is_neutral);
    std::array<float, 3> values{};
    std::memcpy(values.data(), neutral.in, sizeof values);
    CHECK(values[0] == 1);
    CHECK(values[2] == 1);
    CHECK(neutral.divisor == 0);
    rank.tickets.complete(neutral);
    CHECK(rank.negotiator->has_open());  // the join itself
}

TEST_CASE("a group has a neutral member for each tensor") {
    NegotiatorFixture rank;
    (void)rank.submit(Kind::join);
    (void)rank.step();
    auto decision = without_this_rank();
    decision.members.push_back({.name = "y", .signature = {.shape = {2}}});
    decision.first_dims.resize(2);

    const auto ready = rank.read(NegotiatorFixture::decided(decision));

    REQUIRE(ready.size() == 1);
    REQUIRE(ready.front()->next != nullptr);
    CHECK(ready.front()->next->leader == ready.front());
    CHECK(ready.front()->next->signature.shape == hvd::rt::Shape{2});
    for_each_member(*ready.front(),
                    [&](hvd::rt::Operation& member) { rank.tickets.complete(member); });
}

TEST_CASE("an average divides by all ranks, or by those that contribute") {
    const bool over_contributing = GENERATE(false, true);
    CAPTURE(over_contributing);
    NegotiatorFixture rank;
    auto average = rank.request("x");
    average.signature.reduce = ReduceOp::average;
    average.signature.over_contributing = over_contributing;
    auto& operation = rank.submit(average);
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front());
    decision.joined = {2};

    CHECK(rank.read(NegotiatorFixture::decided(decision)) == Operations{&operation});

    CHECK(operation.divisor == (over_contributing ? 2 : 0));
}

TEST_CASE("a join takes back the ids of that rank's sets, and what waited announces itself again") {
    NegotiatorFixture rank;
    rank.teach("world", 1);
    rank.teach("with", 2, 2);
    rank.teach("without", 3, 1);
    (void)rank.submit("world");
    (void)rank.submit("with", 2);
    (void)rank.submit("without", 1);
    REQUIRE(rank.channel.announced.empty());

    (void)rank.read(joined(2));

    REQUIRE(rank.channel.announced.size() == 2);
    CHECK(rank.channel.announced[0].process_set == 0);
    CHECK(rank.channel.announced[1].process_set == 2);
    CHECK(rank.read(event::Ready{.ids = {3}, .of_world = false}).size() == 1);
    CHECK(rank.channel.rounds == 0);  // one rank's join ends no round
}

TEST_CASE("a rank that has joined refuses every round until all have") {
    NegotiatorFixture rank;
    (void)rank.submit(Kind::join);
    (void)rank.step();
    const int before = rank.channel.refusals;

    const auto ready = rank.read(NegotiatorFixture::decided(without_this_rank()));
    CHECK(rank.channel.refusals == before + 1);
    (void)rank.read(joined(0, true));
    CHECK(rank.channel.rounds == 2);
    CHECK(rank.channel.refusals == before + 1);

    rank.tickets.complete(*ready.front());
}

TEST_CASE("an end of the join that this rank has not asked for is an error") {
    NegotiatorFixture rank;
    rank.channel.log.emplace_back(joined(0, true));

    Operations ready;

    CHECK_FALSE(rank.negotiator->step(ready));
}
