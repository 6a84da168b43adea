// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/negotiator_fixture.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::Errc;
using hvd::Error;
using hvd::rt::Decision;
using hvd::test::FakeChannel;
using hvd::test::has_failed;
using hvd::test::NegotiatorFixture;
using hvd::test::Operations;
namespace event = hvd::rt::event;
using Ids = FakeChannel::Ids;

TEST_CASE("what is new is announced by name, and then known by its id") {
    NegotiatorFixture rank;

    auto& first = rank.submit("a");
    REQUIRE(rank.channel.announced.size() == 1);
    CHECK(rank.channel.announced.front().members.front().name == "a");
    CHECK(rank.channel.refusals == 1);
    CHECK(rank.negotiator->has_open());
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front(), 5);
    decision.rank = 2;
    CHECK(rank.read(NegotiatorFixture::decided(decision)) == Operations{&first});
    CHECK(first.last_rank == 2);
    CHECK(rank.channel.rounds == 1);
    CHECK_FALSE(rank.negotiator->has_open());
    rank.tickets.complete(first);

    auto& second = rank.submit("a");
    CHECK(rank.channel.announced.size() == 1);
    CHECK(rank.channel.ready == std::vector<Ids>{{5}});
    CHECK(rank.read(event::Ready{.ids = {5}, .of_world = true, .last_rank = 0}) ==
          Operations{&second});
    CHECK(second.last_rank == 0);
    CHECK(rank.negotiator->totals().by_name.value() == 1);
    CHECK(rank.negotiator->totals().by_bit.value() == 1);
}

TEST_CASE("a changed signature is announced again") {
    NegotiatorFixture rank;
    rank.teach("a", 5);
    auto changed = rank.request("a");
    changed.signature.reduce = hvd::coll::ReduceOp::max;

    (void)rank.submit(changed);

    CHECK(rank.channel.ready.empty());
    CHECK(rank.channel.announced.size() == 1);
}

TEST_CASE("operations are held back while their lane has no room, and then travel together") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.teach("b", 2);
    rank.teach("c", 3, 1);
    rank.full = {0};

    (void)rank.submit("a");
    (void)rank.submit("b");
    (void)rank.submit("new");
    CHECK(rank.channel.ready.empty());
    CHECK(rank.channel.announced.empty());
    CHECK(rank.negotiator->has_open());
    (void)rank.submit("c", 1);  // another lane
    CHECK(rank.channel.ready == std::vector<Ids>{{3}});

    rank.full.clear();
    CHECK(rank.step().empty());
    CHECK(rank.channel.ready == std::vector<Ids>{{3}, {1, 2}});
    CHECK(rank.channel.ready_sets == std::vector{1, 0});
    CHECK(rank.channel.announced.size() == 1);
}

TEST_CASE("each batch of the log is a batch of its own, of one set") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    rank.teach("b", 2);
    rank.teach("c", 3, 1);
    auto& a = rank.submit("a");
    auto& b = rank.submit("b");
    auto& c = rank.submit("c", 1);
    rank.channel.log = {event::Ready{.ids = {2}, .of_world = true},
                        event::Ready{.ids = {3}, .of_world = false},
                        event::Ready{.ids = {1, 9, 70}, .of_world = true}};

    CHECK(rank.step() == Operations{&b});
    CHECK(rank.step() == Operations{&c});
    CHECK(rank.channel.rounds == 1);
    CHECK(rank.step() == Operations{&a});  // and ids that this rank knows nothing of
    CHECK(rank.channel.rounds == 2);
}

TEST_CASE("what was decided together is ready together, set by set") {
    NegotiatorFixture rank;
    auto& a = rank.submit("a");
    auto& b = rank.submit("b");
    auto& c = rank.submit("c", 1);
    const auto decided = [&](std::size_t index, bool more) {
        return NegotiatorFixture::decided(
            NegotiatorFixture::decision(rank.channel.announced[index]), more);
    };

    CHECK(rank.read(decided(1, true)).empty());
    CHECK(rank.read(decided(2, false)) == Operations{&c});
    CHECK(rank.channel.rounds == 0);
    CHECK(rank.read(decided(0, false)) == Operations{&b, &a});
    CHECK(rank.channel.rounds == 1);
}

TEST_CASE("a chain that ends with an error lets the others go") {
    NegotiatorFixture rank;
    auto& good = rank.submit("good");
    auto& bad = rank.submit("bad");
    auto refused = NegotiatorFixture::decision(rank.channel.announced[1]);
    refused.error = Error{Errc::mismatch, "no"};

    CHECK(rank.read(NegotiatorFixture::decided(
                        NegotiatorFixture::decision(rank.channel.announced[0]), true))
              .empty());
    CHECK(rank.read(NegotiatorFixture::decided(refused)) == Operations{&good});

    CHECK(has_failed(bad));
    CHECK(bad.error.message == "no");
    CHECK_FALSE(rank.negotiator->has_open());
}

TEST_CASE("an error about groups fails all that this rank has announced with their names") {
    NegotiatorFixture rank;
    auto& a = rank.submit("a");
    auto& b = rank.submit("b");
    auto& other = rank.submit("other");
    Decision refused = NegotiatorFixture::decision(rank.channel.announced[0]);
    for (const auto* name : {"b", "c", "a"}) {  // "a" is there twice, "c" is not this rank's
        refused.members.push_back({.name = name, .signature = {}});
    }
    refused.error = Error{Errc::mismatch, "no"};

    CHECK(rank.read(NegotiatorFixture::decided(refused)).empty());

    CHECK(has_failed(a));
    CHECK(has_failed(b));
    CHECK_FALSE(has_failed(other));
    CHECK(rank.negotiator->has_open());
}

TEST_CASE("an error fails what this rank is named for, not what it has announced meanwhile") {
    NegotiatorFixture rank;
    auto& a = rank.submit("a");
    auto& b = rank.submit("b");
    Decision refused = NegotiatorFixture::decision(rank.channel.announced[0]);
    refused.members.push_back({.name = "a", .signature = {}});
    refused.members.push_back({.name = "b", .signature = {}});
    refused.announcers = {1, 0, 0};  // rank 0 has them in a group
    refused.error = Error{Errc::mismatch, "no"};

    (void)rank.read(NegotiatorFixture::decided(refused));

    CHECK(has_failed(a));
    CHECK_FALSE(hvd::rt::TicketTable::is_done(b));
}

TEST_CASE("the members of a group are announced, agreed on and fail as one") {
    NegotiatorFixture rank;
    auto group = rank.make({rank.request("a", 0, 1), rank.request("b", 0, 1)});
    rank.negotiator->submit({group.data(), 1}, NegotiatorFixture::Urgency::background);
    REQUIRE(rank.channel.announced.size() == 1);
    CHECK(rank.channel.announced.front().members.size() == 2);
    auto refused = NegotiatorFixture::decision(rank.channel.announced.front());
    refused.error = Error{Errc::mismatch, "no"};

    (void)rank.read(NegotiatorFixture::decided(refused));

    CHECK(has_failed(*group[0]));
    CHECK(has_failed(*group[1]));
    CHECK(rank.tickets.completed() == 2);
}

TEST_CASE("an id that is taken back makes what waits for it announce itself again") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    auto& operation = rank.submit("a");

    CHECK(rank.read(event::Invalidated{1}).empty());
    CHECK(rank.channel.announced.size() == 1);
    CHECK(rank.read(event::Ready{.ids = {1}, .of_world = true}).empty());
    auto again = NegotiatorFixture::decision(rank.channel.announced.front(), 2);
    CHECK(rank.read(NegotiatorFixture::decided(again)) == Operations{&operation});
    (void)rank.read(event::Invalidated{77});  // of a set that this rank is not in
}

TEST_CASE("decisions that cannot be are errors of the channel, not crashes") {
    NegotiatorFixture rank;
    auto request = rank.request("a");
    request.signature.device = {.kind = hvd::coll::Device::Kind::cuda, .index = 1};
    (void)rank.submit(std::move(request));
    auto bad = NegotiatorFixture::decision(rank.channel.announced.front());
    bad.devices = {{0, 1, 0}};  // the second is this rank's
    const auto fault = GENERATE(values<std::string>({"set", "name", "sizes", "bytes", "devices"}));
    CAPTURE(fault);
    if (fault == "set") {
        bad.process_set = 9;
    } else if (fault == "name") {
        bad.members.front().name = "b";
    } else if (fault == "sizes") {
        bad.first_dims = {{1, 2, 3}};
    } else if (fault == "devices") {
        bad.devices =
            GENERATE(values<std::vector<hvd::rt::DeviceList>>({{}, {{}}, {{0, 1}}, {{1, 0, 1}}}));
    }
    auto decided = NegotiatorFixture::decided(bad);
    if (fault == "bytes") {
        decided.message.pop_back();
    }
    rank.channel.log.emplace_back(decided);

    Operations ready;
    const auto stepped = rank.negotiator->step(ready);

    REQUIRE_FALSE(stepped);
    CHECK(stepped.error().code == Errc::internal);
    CHECK(ready.empty());
}

TEST_CASE("an operation has the devices of all members, also each time that its id is ready") {
    NegotiatorFixture rank;
    const auto submit = [&]() -> hvd::rt::Operation& {
        auto request = rank.request("a");
        request.signature.device = {.kind = hvd::coll::Device::Kind::cuda, .index = 1};
        return rank.submit(std::move(request));
    };
    auto& first = submit();
    auto decision = NegotiatorFixture::decision(rank.channel.announced.front(), 4);
    decision.devices = {{0, 1, 0}};
    CHECK(rank.read(NegotiatorFixture::decided(decision)) == Operations{&first});
    REQUIRE(first.devices != nullptr);
    CHECK(*first.devices == hvd::rt::DeviceList{0, 1, 0});
    rank.tickets.complete(first);

    auto& second = submit();
    CHECK(rank.read(event::Ready{.ids = {4}, .of_world = true}) == Operations{&second});

    CHECK(second.devices == first.devices);
    rank.tickets.complete(second);
    auto elsewhere = rank.request("a");
    elsewhere.signature.device = {.kind = hvd::coll::Device::Kind::cuda, .index = 0};
    (void)rank.submit(std::move(elsewhere));
    CHECK(rank.channel.announced.size() == 2);  // by name: the id is of another list
}

TEST_CASE("nothing in the log is executed after this rank has left") {
    NegotiatorFixture rank;
    rank.teach("a", 1);
    (void)rank.submit("a");
    rank.channel.log = {event::Left{1}, event::Ready{.ids = {1}, .of_world = true}};

    CHECK(rank.step().empty());
    CHECK(rank.negotiator->left_rank() == 1);
    CHECK(rank.step().empty());
    CHECK(rank.negotiator->has_open());
}

TEST_CASE("at the end everything that is open fails, once") {
    NegotiatorFixture rank;
    rank.teach("cached", 1);
    Operations all;
    all.push_back(&rank.submit("announced"));
    all.push_back(&rank.submit("cached"));
    auto group = rank.make({rank.request("x", 0, 1), rank.request("y", 0, 1)});
    rank.negotiator->submit({group.data(), 1}, NegotiatorFixture::Urgency::background);
    all.insert(all.end(), group.begin(), group.end());
    rank.full = {0};
    all.push_back(&rank.submit("held"));
    all.push_back(&rank.submit("other set", 1));
    all.push_back(&rank.submit(hvd::rt::Kind::join));
    all.push_back(&rank.submit("after the join"));
    const auto before = rank.tickets.completed();

    rank.negotiator->fail_open([](const hvd::rt::Operation&) {
        return Error{Errc::aborted, "over"};
    });

    for (const auto* operation : all) {
        CAPTURE(operation->name->text);
        CHECK(has_failed(*operation));
        CHECK(operation->error.message == "over");
    }
    CHECK(rank.tickets.completed() - before == all.size());
    CHECK_FALSE(rank.negotiator->has_open());
    CHECK(rank.sets.find(1)->users == 0);
}
