// SPDX-License-Identifier: Apache-2.0
//
// The short way of operations that callers wait for.
#include "tests/unit/runtime/negotiator_fixture.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <span>
#include <vector>

using hvd::rt::Proposal;
using hvd::test::FakeChannel;
using hvd::test::NegotiatorFixture;
using hvd::test::Operations;
namespace event = hvd::rt::event;
using Ids = FakeChannel::Ids;
using Urgency = NegotiatorFixture::Urgency;

TEST_CASE("what a caller waits for, and nothing else is open, is proposed by its ids, ascending") {
    NegotiatorFixture rank;
    rank.teach("a", 9);
    rank.teach("b", 4);
    const auto operations = rank.make({rank.request("a"), rank.request("b")});

    rank.negotiator->submit(operations, Urgency::awaited);
    CHECK(rank.channel.proposed == std::vector<Ids>{{4, 9}});
    CHECK(rank.channel.ready.empty());
    CHECK(rank.negotiator->is_proposing());
    CHECK(rank.step().empty());
    rank.channel.outcome = Proposal::accepted;

    CHECK(rank.step() == Operations{operations[1], operations[0]});
    CHECK_FALSE(rank.negotiator->is_proposing());
    CHECK_FALSE(rank.negotiator->has_open());
}

TEST_CASE("a refused proposal goes the way of the ready bits") {
    NegotiatorFixture rank;
    rank.teach("a", 9);
    (void)rank.submit("a", 0, Urgency::awaited);
    rank.channel.outcome = Proposal::refused;

    CHECK(rank.step().empty());

    CHECK(rank.channel.ready == std::vector<Ids>{{9}});
    CHECK(rank.channel.refusals == 1);
    CHECK(rank.negotiator->has_open());
}

TEST_CASE("what must not be proposed is not") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.teach("of set 1", 2, 1);
    const auto why = GENERATE(0, 1, 2, 3, 4, 5, 6);
    CAPTURE(why);
    switch (why) {
        case 0: (void)rank.submit("a", 0, Urgency::background); break;
        case 1: (void)rank.submit("new", 0, Urgency::awaited); break;
        case 2: (void)rank.submit("of set 1", 1, Urgency::awaited); break;
        case 3:
            rank.full = {0};
            (void)rank.submit("a", 0, Urgency::awaited);
            break;
        case 4:  // beside something of the world that is open
            (void)rank.submit("open");
            (void)rank.submit("a", 0, Urgency::awaited);
            break;
        case 5:
            (void)rank.submit(hvd::rt::Kind::join);
            (void)rank.submit("a", 0, Urgency::awaited);
            break;
        case 6:
            rank.channel.is_in_vain = true;
            (void)rank.submit("a", 0, Urgency::awaited);
            CHECK(rank.channel.ready == std::vector<Ids>{{1}});
            break;
        default: break;
    }

    CHECK(rank.channel.proposed.empty());
}

TEST_CASE("a set's open operations are no reason against a proposal of the world") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    (void)rank.submit("open", 1);

    (void)rank.submit("a", 0, Urgency::awaited);

    CHECK(rank.channel.proposed.size() == 1);
}

TEST_CASE("while a proposal waits, only requests of the world are held") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.teach("b", 2);
    rank.teach("of set 1", 3, 1);
    auto& proposed = rank.submit("a", 0, Urgency::awaited);

    auto& held = rank.submit("b");
    auto& quick = rank.submit("of set 1", 1);
    CHECK(rank.channel.ready == std::vector<Ids>{{3}});
    CHECK(rank.read(event::Ready{.ids = {3}, .of_world = false}) == Operations{&quick});
    CHECK(rank.negotiator->is_proposing());

    rank.channel.outcome = Proposal::accepted;
    CHECK(rank.step() == Operations{&proposed});
    CHECK(rank.channel.ready == std::vector<Ids>{{3}, {2}});
    CHECK(rank.read(event::Ready{.ids = {2}, .of_world = true}) == Operations{&held});
}

TEST_CASE("an entry of the world that is read after an acceptance comes after what was accepted") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    auto& proposed = rank.submit("a", 0, Urgency::awaited);
    rank.channel.log.emplace_back(event::Left{1});
    rank.channel.outcome = Proposal::accepted;

    CHECK(rank.step() == Operations{&proposed});
    CHECK_FALSE(rank.negotiator->left_rank());
    CHECK(rank.step().empty());
    CHECK(rank.negotiator->left_rank() == 1);
}

TEST_CASE("a rank owes its refusal in every round in which something of the world is open") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.teach("b", 2);
    (void)rank.submit("a");
    (void)rank.submit("b");
    const int before = rank.channel.refusals;
    CHECK(before > 0);

    (void)rank.read(event::Ready{.ids = {1}, .of_world = true});
    CHECK(rank.channel.rounds == 1);
    CHECK(rank.channel.refusals == before + 1);
    (void)rank.read(event::Ready{.ids = {2}, .of_world = true});

    CHECK(rank.channel.rounds == 2);
    CHECK(rank.channel.refusals == before + 1);
}

TEST_CASE("ready bits that were the last ones owe no refusal: the round ends at once") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.channel.completes_ready = true;

    (void)rank.submit("a");

    CHECK(rank.channel.refusals == 0);
}

TEST_CASE(
    "a wait for a proposal is measured only where the rank has slept, for all that it proposes") {
    using TimePoint = hvd::rt::Waiting::TimePoint;
    const TimePoint fell_asleep{std::chrono::seconds(7)};
    NegotiatorFixture rank;
    rank.teach("a", 2);
    rank.teach("b", 1);
    rank.channel.awaited = 2;
    const bool has_slept = GENERATE(true, false);
    const auto operations = rank.make({rank.request("a"), rank.request("b")});
    for (hvd::rt::Operation* operation : operations) {
        operation->since = TimePoint{std::chrono::seconds(3)};  // of an earlier use
    }

    rank.negotiator->submit(operations, Urgency::awaited);
    if (has_slept) {
        rank.negotiator->note_time(fell_asleep);
        rank.negotiator->note_time(fell_asleep + std::chrono::seconds(1));
    }
    rank.channel.outcome = Proposal::accepted;
    CHECK(rank.step().size() == 2);

    for (const auto* operation : operations) {
        CHECK(operation->is_timed == has_slept);
        CHECK(operation->since == (has_slept ? fell_asleep : TimePoint{}));
        CHECK((!has_slept || operation->last_rank == 2));
    }
}

TEST_CASE("the input of a small operation travels in its proposal") {
    NegotiatorFixture rank;
    rank.teach("a", 9);
    auto& operation = rank.submit("a", 0, Urgency::awaited);
    REQUIRE(rank.channel.payloads_proposed.size() == 1);
    CHECK(rank.channel.payloads_proposed.front() ==
          std::vector<std::byte>(operation.in, operation.in + 4));
    rank.channel.received.assign(3, operation.in);

    CHECK(rank.step().empty());
    CHECK(rank.negotiator->inputs().empty());
    rank.channel.outcome = Proposal::accepted;
    CHECK(rank.step() == Operations{&operation});
    CHECK(rank.negotiator->inputs().data() == rank.channel.received.data());

    CHECK(rank.step().empty());
    CHECK(rank.negotiator->inputs().empty());
}

TEST_CASE("what is held is published only after the inputs of a proposal have been read") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.teach("b", 2);
    auto& proposed = rank.submit("a", 0, Urgency::awaited);
    auto& held = rank.submit("b");
    rank.channel.received.assign(3, proposed.in);
    rank.channel.outcome = Proposal::accepted;

    CHECK(rank.step() == Operations{&proposed});
    CHECK(rank.channel.ready.empty());
    CHECK(rank.negotiator->has_open());
    CHECK(rank.step().empty());
    CHECK(rank.channel.ready == std::vector<Ids>{{2}});
    CHECK(rank.read(event::Ready{.ids = {2}, .of_world = true}) == Operations{&held});
}

TEST_CASE("of the inputs of an alltoall the executor gets the parts for this rank") {
    NegotiatorFixture rank;
    std::vector<float> data(6, 1.0F);
    auto request = [&] {
        auto made = hvd::test::float_request("a", std::span(data));
        made.signature.op = hvd::coll::Op::alltoall;
        made.signature.splits = {1, 2, 3};
        return made;
    };
    auto& first = rank.submit(request());
    auto decision = NegotiatorFixture::decision(rank.channel.announced.back(), 1);
    decision.first_dims = {{4, 2, 1, 1, 2, 3, 0, 5, 0}};
    (void)rank.read(NegotiatorFixture::decided(decision));
    rank.tickets.complete(first);
    const std::vector<std::byte> memory(100);
    rank.channel.received.assign(3, memory.data());

    auto& again = rank.submit(request(), Urgency::awaited);
    REQUIRE(rank.channel.payloads_proposed.size() == 1);
    CHECK(rank.channel.payloads_proposed.front().size() == 6 * sizeof(float));
    rank.channel.outcome = Proposal::accepted;
    CHECK(rank.step() == Operations{&again});

    const auto inputs = rank.negotiator->inputs();
    REQUIRE(inputs.size() == 3);
    CHECK(inputs[0] == memory.data() + 4 * sizeof(float));
    CHECK(inputs[1] == again.in + 1 * sizeof(float));  // its own input, in place
    CHECK(inputs[2] == memory.data());
}

TEST_CASE("a payload whose proposal is refused, or that was none, gives no inputs") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.teach("b", 2);
    rank.channel.received.assign(3, nullptr);
    const bool is_refused = GENERATE(true, false);
    const auto operations = rank.make({rank.request("a"), rank.request("b")});

    const std::span all(operations);
    rank.negotiator->submit(is_refused ? all.first(1) : all, Urgency::awaited);
    rank.channel.outcome = is_refused ? Proposal::refused : Proposal::accepted;
    const auto ready = rank.step();

    CHECK(ready.size() == (is_refused ? 0 : 2));
    CHECK(rank.negotiator->inputs().empty());
    if (is_refused) {
        rank.negotiator->submit(all.last(1), Urgency::background);
    }
}

TEST_CASE("an input of more than the channel takes does not travel in the proposal") {
    NegotiatorFixture rank;
    std::vector<float> data(17, 1.0F);
    const auto count = GENERATE(16U, 17U);
    auto request = [&] { return hvd::test::float_request("a", std::span(data).first(count)); };
    auto& first = rank.submit(request());
    (void)rank.read(
        NegotiatorFixture::decided(NegotiatorFixture::decision(rank.channel.announced.back(), 1)));
    rank.tickets.complete(first);
    rank.channel.received.assign(3, first.in);

    auto& again = rank.submit(request(), Urgency::awaited);
    REQUIRE(rank.channel.payloads_proposed.size() == 1);
    CHECK(rank.channel.payloads_proposed.front().size() == (count == 16 ? 64 : 0));
    rank.channel.outcome = Proposal::accepted;
    CHECK(rank.step() == Operations{&again});
    CHECK(rank.negotiator->inputs().empty() == (count == 17));
}

TEST_CASE("a tensor group is proposed alone") {
    NegotiatorFixture rank;
    const auto request = [&] {
        return std::vector{rank.request("a", 0, 1), rank.request("b", 0, 1)};
    };
    const auto group = rank.make(request());
    rank.negotiator->submit({group.data(), 1}, Urgency::background);
    (void)rank.read(
        NegotiatorFixture::decided(NegotiatorFixture::decision(rank.channel.announced.back(), 1)));
    for (auto* member : group) {
        rank.tickets.complete(*member);
    }

    const auto again = rank.make(request());
    rank.negotiator->submit({again.data(), 1}, Urgency::awaited);

    CHECK(rank.channel.payloads_proposed == std::vector<std::vector<std::byte>>{{}});
}
