// SPDX-License-Identifier: Apache-2.0
//
// Shapes and memory of results, at the negotiator.
#include "tests/unit/runtime/negotiator_fixture.hpp"

#include <catch2/catch.hpp>

#include <vector>

using hvd::Errc;
using hvd::Error;
using hvd::coll::Op;
using hvd::test::FakeChannel;
using hvd::test::has_failed;
using hvd::test::NegotiatorFixture;
using hvd::test::Operations;
namespace event = hvd::rt::event;
using Ids = FakeChannel::Ids;

TEST_CASE("a result of open size is allocated when all sizes are known, then set ready") {
    NegotiatorFixture rank;
    const bool is_transient = GENERATE(false, true);
    CAPTURE(is_transient);
    auto gather = rank.request("a");
    gather.signature.op = Op::allgather;
    gather.has_out = false;
    auto& operation = rank.submit(gather);
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front(), 4);
    decision.awaits_memory = true;
    decision.is_transient = is_transient;
    decision.first_dims = {{2, 1, 3}};
    decision.rank = 2;

    CHECK(rank.read(NegotiatorFixture::decided(decision)).empty());
    CHECK(rank.channel.ready == std::vector<Ids>{{4}});
    CHECK(operation.out != nullptr);
    CHECK(shape_of_result(operation) == hvd::rt::Shape{6});
    CHECK(rank.read(event::Ready{.ids = {4}, .of_world = true, .last_rank = 0}) ==
          Operations{&operation});
    CHECK(operation.last_rank == 2);  // rank 0 was only the last to have the memory
    rank.tickets.complete(operation);

    // One that is transient has ended with that.
    (void)rank.submit(gather);
    CHECK(rank.channel.announced.size() == (is_transient ? 2 : 1));
    CHECK(rank.channel.ready.size() == (is_transient ? 1 : 2));
}

TEST_CASE("a plan runs by the terms of the last agreement") {
    NegotiatorFixture rank;
    auto gather = rank.request("a");
    gather.signature.op = Op::allgather;
    gather.has_out = false;
    auto& operation = rank.submit(gather);
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front(), 4);
    decision.awaits_memory = true;
    decision.first_dims = {{2, 1, 3}};
    const auto run = [&](hvd::rt::CacheId id) {
        CHECK(rank.read(event::Ready{.ids = {id}, .of_world = true}) == Operations{&operation});
        rank.tickets.complete(operation);
    };
    (void)rank.read(NegotiatorFixture::decided(decision));
    run(4);
    rank.submit_again(operation);
    run(4);
    const auto* const first = operation.out;
    rank.submit_again(operation);
    run(4);
    CHECK(operation.out == first);
    CHECK(shape_of_result(operation) == hvd::rt::Shape{6});

    // Meanwhile the ranks agree anew, about another operation of this name.
    (void)rank.read(event::Invalidated{4});
    auto& other = rank.submit(gather);
    decision.id = 5;
    decision.first_dims = {{2, 1, 4}};
    (void)rank.read(NegotiatorFixture::decided(decision));
    CHECK(rank.read(event::Ready{.ids = {5}, .of_world = true}) == Operations{&other});
    rank.tickets.complete(other);
    rank.submit_again(operation);
    run(5);

    CHECK(shape_of_result(operation) == hvd::rt::Shape{7});
    CHECK(operation.first_dims == std::vector<std::int64_t>{2, 1, 4});
}

TEST_CASE("received splits of an alltoall are one column of what each sends to each") {
    NegotiatorFixture rank;
    auto exchange = rank.request("a");
    exchange.signature.op = Op::alltoall;
    exchange.signature.shape = {3, 2};
    exchange.has_out = false;
    auto& operation = rank.submit(exchange);
    CHECK(rank.channel.announced.front().members.front().signature.splits ==
          std::vector<std::int64_t>{1, 1, 1});
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front(), 4);
    decision.awaits_memory = true;
    decision.first_dims = {{0, 5, 0, 1, 1, 1, 0, 7, 0}};

    (void)rank.read(NegotiatorFixture::decided(decision));

    CHECK(operation.received_splits == std::vector<std::int64_t>{5, 1, 7});
    CHECK(shape_of_result(operation) == hvd::rt::Shape{13, 2});
}

TEST_CASE("a result for which there is no memory is announced as a failure") {
    NegotiatorFixture rank;
    auto huge = rank.request("huge");
    huge.has_out = false;
    auto operations = rank.make({huge});
    operations.front()->signature.shape = {std::int64_t{1} << 61, 4};  // no machine has that

    rank.negotiator->submit(operations, NegotiatorFixture::Urgency::background);

    REQUIRE(rank.channel.announced.size() == 1);
    CHECK(rank.channel.announced.front().failure.starts_with("there is no memory for a result"));
}

TEST_CASE("a gathered result for which there is no memory is announced instead of set ready") {
    NegotiatorFixture rank;
    auto gather = rank.request("a");
    gather.signature.op = Op::allgather;
    gather.has_out = false;
    auto& operation = rank.submit(gather);
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front(), 4);
    decision.awaits_memory = true;
    decision.first_dims = {{std::int64_t{1} << 61, 1, std::int64_t{1} << 61}};

    CHECK(rank.read(NegotiatorFixture::decided(decision)).empty());
    CHECK(rank.channel.ready.empty());
    REQUIRE(rank.channel.announced.size() == 2);
    CHECK(rank.channel.announced[1].failure != "");

    auto refused = NegotiatorFixture::decision(rank.channel.announced[1]);
    refused.error = Error{Errc::unavailable, "no memory"};
    (void)rank.read(event::Invalidated{4});
    (void)rank.read(NegotiatorFixture::decided(refused));
    CHECK(has_failed(operation));
    CHECK_FALSE(rank.negotiator->has_open());
}
