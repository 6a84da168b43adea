// SPDX-License-Identifier: Apache-2.0
//
// The coordinator and ranks that have joined.
#include "runtime/negotiation/coordinator.hpp"
#include "tests/unit/runtime/announcements.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <variant>
#include <vector>

using hvd::Errc;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::Announcement;
using hvd::rt::Coordinator;
using hvd::rt::Decision;
using hvd::rt::Kind;
using hvd::rt::kNoId;
using hvd::test::add_set;
using hvd::test::addition;
using hvd::test::agree;
using hvd::test::announce;
using hvd::test::decision_of;
using hvd::test::join;
using hvd::test::kRoomy;
using hvd::test::of;
using hvd::test::tensor;

TEST_CASE("the others agree without a rank that has joined, by name") {
    Coordinator coordinator(3, kRoomy);

    const auto joined = decision_of(announce(coordinator, 1, join()));
    CHECK(kind_of(joined) == Kind::join);
    CHECK(joined.rank == 1);
    CHECK_FALSE(joined.ends_join);
    CHECK(announce(coordinator, 0, tensor("a")).empty());
    const auto decision = decision_of(announce(coordinator, 2, tensor("a")));

    CHECK_FALSE(decision.error);
    CHECK(decision.joined == std::vector{1});
    CHECK(decision.members == tensor("a").members);
    CHECK(decision.id == kNoId);
    CHECK_FALSE(decision.awaits_memory);
}

TEST_CASE("a join decides what has waited for nothing else, after its own entry") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 0, tensor("b"));
    (void)announce(coordinator, 0, tensor("a"));

    const auto entries = announce(coordinator, 1, join());

    REQUIRE(entries.size() == 3);
    CHECK(kind_of(std::get<Decision>(entries[0])) == Kind::join);
    CHECK(std::get<Decision>(entries[1]).members.front().name == "a");
    CHECK(std::get<Decision>(entries[2]).members.front().name == "b");
    CHECK(std::get<Decision>(entries[1]).joined == std::vector{1});
    CHECK(std::get<Decision>(entries[1]).rank == 1);  // for which the others have waited
}

TEST_CASE("the join ends with the last rank, which is named") {
    Coordinator coordinator(3, kRoomy);
    (void)announce(coordinator, 2, join());
    (void)announce(coordinator, 0, join());

    const auto last = decision_of(announce(coordinator, 1, join()));

    CHECK(last.ends_join);
    CHECK(last.rank == 1);
    // From here on all ranks are needed again.
    CHECK(announce(coordinator, 0, tensor("a")).empty());
    CHECK(announce(coordinator, 1, tensor("a")).empty());
    const auto decision = decision_of(announce(coordinator, 2, tensor("a")));
    CHECK(decision.joined.empty());
    CHECK(decision.id != kNoId);
    CHECK_FALSE(decision_of(announce(coordinator, 0, join())).ends_join);
}

TEST_CASE("a join takes cached ids of the rank's sets back, and no other") {
    Coordinator coordinator(3, {.capacity = 3, .ids = 3, .quarantine = 1});
    const int with = add_set(coordinator, {1, 2}, {0, 1, 2});
    const int without = add_set(coordinator, {0, 1}, {0, 1, 2});
    (void)agree(coordinator, tensor("a", 4, 0), {0, 1, 2});
    (void)agree(coordinator, tensor("a", 4, with), {1, 2});
    const auto kept = decision_of(agree(coordinator, tensor("a", 4, without), {0, 1}));

    (void)announce(coordinator, 2, join());

    // Announced again, a group whose id was taken back invalidates nothing.
    CHECK(announce(coordinator, 1, tensor("a", 4, with)).size() == 1);
    CHECK(announce(coordinator, 0, tensor("a")).empty());
    const auto entries = announce(coordinator, 0, tensor("a", 8, without));
    REQUIRE(entries.size() == 1);
    CHECK(std::get<hvd::rt::Invalidation>(entries.front()).id == kept.id);
}

TEST_CASE("sets without the rank go on as before") {
    Coordinator coordinator(3, kRoomy);
    const int id = add_set(coordinator, {0, 1}, {0, 1, 2});
    (void)announce(coordinator, 2, join());

    const auto decision = decision_of(agree(coordinator, tensor("a", 4, id)));

    CHECK(decision.joined.empty());
    CHECK(decision.id != kNoId);
}

TEST_CASE("an id that ends with its first use ends when a member joins") {
    Coordinator coordinator(2, {.capacity = 0, .ids = 1, .quarantine = 0});
    REQUIRE(decision_of(agree(coordinator, of(Op::allgather, "a"))).is_transient);

    (void)announce(coordinator, 0, join());
    (void)announce(coordinator, 1, join());

    CHECK(decision_of(agree(coordinator, of(Op::allgather, "a"))).is_transient);
}

TEST_CASE("what needs a tensor of every rank is refused while one has joined") {
    struct Refused {
        Announcement announcement;
        std::string why;
    };
    auto scaled = tensor("x");
    scaled.members.front().signature.prescale = 0.5;
    scaled.members.front().signature.reduce = ReduceOp::max;
    const auto refused = GENERATE_COPY(values<Refused>({
        {of(Op::allgather, "x"), "allgather needs a tensor of every rank"},
        {of(Op::broadcast, "x"), "broadcast needs a tensor of every rank"},
        {of(Op::alltoall, "x"), "alltoall needs a tensor of every rank"},
        {of(Op::reducescatter, "x"), "reducescatter needs a tensor of every rank"},
        {scaled, "max with a prescale factor needs a tensor of every rank"},
    }));
    CAPTURE(refused.why);
    Coordinator coordinator(3, kRoomy);
    (void)announce(coordinator, 0, join());
    (void)announce(coordinator, 2, join());

    const auto decision = decision_of(announce(coordinator, 1, refused.announcement));

    REQUIRE(decision.error);
    CHECK(decision.error->code == Errc::mismatch);
    CHECK(decision.error->message == "tensor 'x': " + refused.why + ", but ranks 0,2 have joined");
    // It harms nothing else.
    CHECK_FALSE(decision_of(announce(coordinator, 1, tensor("y"))).error);
    CHECK(decision_of(announce(coordinator, 1, join())).ends_join);
}

TEST_CASE("a sum with a prescale factor, and a barrier, need no rank that has joined") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 1, join());
    auto scaled = tensor("x");
    scaled.members.front().signature.prescale = 0.5;

    CHECK_FALSE(decision_of(announce(coordinator, 0, scaled)).error);
    CHECK_FALSE(decision_of(announce(coordinator, 0, of(Op::barrier, "y"))).error);
}

TEST_CASE("process sets do not change while a rank has joined") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 1, join());

    const auto decision = decision_of(announce(coordinator, 0, addition({0})));

    REQUIRE(decision.error);
    CHECK(decision.error->message ==
          "tensor 'add': process sets cannot change, but rank 1 has joined");
}
