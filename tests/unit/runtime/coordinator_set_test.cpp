// SPDX-License-Identifier: Apache-2.0
//
// The coordinator and process sets.
#include "runtime/negotiation/coordinator.hpp"
#include "tests/unit/runtime/announcements.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::coll::Op;
using hvd::rt::Coordinator;
using hvd::rt::Invalidation;
using hvd::rt::kNoId;
using hvd::rt::LogEntry;
using hvd::test::add_set;
using hvd::test::addition;
using hvd::test::agree;
using hvd::test::announce;
using hvd::test::decision_of;
using hvd::test::kRoomy;
using hvd::test::of;
using hvd::test::removal;
using hvd::test::tensor;

namespace {

const std::vector<int> kWorld{0, 1, 2};

}  // namespace

TEST_CASE("a set exists from its addition on, and agrees with its own members alone") {
    Coordinator coordinator(3, kRoomy);

    const int id = add_set(coordinator, {2, 0}, kWorld);
    CHECK(id == 1);
    CHECK(announce(coordinator, 2, tensor("a", 4, id)).empty());
    const auto decision = decision_of(announce(coordinator, 0, tensor("a", 4, id)));

    CHECK_FALSE(decision.error);
    CHECK(decision.process_set == id);
    CHECK(announce(coordinator, 0, tensor("b", 4, id)).empty());
    CHECK(coordinator.waiting().front().missing == std::vector{2});
}

TEST_CASE("the same name in two sets is two tensors") {
    Coordinator coordinator(3, kRoomy);
    const int first = add_set(coordinator, {0, 1}, kWorld);
    const int second = add_set(coordinator, {0, 2}, kWorld);

    CHECK(announce(coordinator, 0, tensor("a", 1, first)).empty());
    CHECK(announce(coordinator, 0, tensor("a", 2, second)).empty());
    CHECK(announce(coordinator, 0, tensor("a", 3, 0)).empty());
    const auto of_second = decision_of(announce(coordinator, 2, tensor("a", 2, second)));
    const auto of_first = decision_of(announce(coordinator, 1, tensor("a", 1, first)));

    CHECK_FALSE(of_first.error);
    CHECK_FALSE(of_second.error);
    CHECK(of_first.id != of_second.id);
    CHECK(coordinator.waiting().size() == 1);  // the world's
}

TEST_CASE("a full cache evicts only an id of the same set, or gives none") {
    Coordinator coordinator(3, {.capacity = 2, .ids = 100, .quarantine = 1});
    const int id = add_set(coordinator, {0, 1}, kWorld);
    (void)agree(coordinator, tensor("old", 4, 0), kWorld);
    const auto kept = decision_of(agree(coordinator, tensor("first", 4, id)));
    REQUIRE(kept.id != kNoId);

    const auto entries = agree(coordinator, tensor("second", 4, id));
    REQUIRE(entries.size() == 2);
    CHECK(entries.front() == LogEntry(Invalidation{.process_set = id, .id = kept.id}));
    CHECK(decision_of(entries).id != kNoId);

    const int other = add_set(coordinator, {1, 2}, kWorld);
    const auto none = agree(coordinator, tensor("third", 4, other), {1, 2});
    REQUIRE(none.size() == 1);
    CHECK(decision_of(none).id == kNoId);
}

TEST_CASE("ranks are reported by their numbers in the world") {
    Coordinator coordinator(3, kRoomy);
    const int id = add_set(coordinator, {1, 2}, kWorld);

    (void)announce(coordinator, 1, tensor("a", 1, id));
    const auto decision = decision_of(announce(coordinator, 2, tensor("a", 2, id)));

    REQUIRE(decision.error);
    CHECK(decision.error->message ==
          "tensor 'a': ranks disagree on the shape: [1] on rank 1, [2] on rank 2");
}

TEST_CASE("rows are listed by the places of the set") {
    Coordinator coordinator(3, kRoomy);
    const int id = add_set(coordinator, {1, 2}, kWorld);
    auto first = of(Op::allgather, "a", 7);
    first.process_set = id;
    auto second = of(Op::allgather, "a", 9);
    second.process_set = id;

    (void)announce(coordinator, 2, second);

    CHECK(decision_of(announce(coordinator, 1, first)).first_dims ==
          std::vector<std::vector<std::int64_t>>{{7, 9}});
}

TEST_CASE("a set that is equal to another one is refused, and the other one is named") {
    Coordinator coordinator(3, kRoomy);
    const int id = add_set(coordinator, {0, 2}, kWorld);

    const auto again = decision_of(agree(coordinator, addition({2, 0}), kWorld));
    const auto world = decision_of(agree(coordinator, addition({0, 1, 2}), kWorld));

    REQUIRE(again.error);
    CHECK(again.error->code == Errc::invalid_argument);
    CHECK(again.set_id == id);
    REQUIRE(world.error);
    CHECK(world.set_id == 0);
}

TEST_CASE("ranks that add different sets are told so") {
    Coordinator coordinator(2, kRoomy);

    (void)announce(coordinator, 0, addition({0}));
    const auto decision = decision_of(announce(coordinator, 1, addition({1})));

    REQUIRE(decision.error);
    CHECK(decision.error->message ==
          "tensor 'add': ranks disagree on the ranks of the process set: [0] on rank 0, [1] on "
          "rank 1");
    CHECK(add_set(coordinator, {0}, {0, 1}) == 1);  // nothing is left of the attempt
}

TEST_CASE("a removed set is gone for whoever announces something of it later") {
    Coordinator coordinator(3, kRoomy);
    const int id = add_set(coordinator, {0, 1}, kWorld);
    (void)announce(coordinator, 0, tensor("a", 4, id));

    const auto decision = decision_of(agree(coordinator, removal(id), kWorld));

    CHECK_FALSE(decision.error);
    CHECK(decision.set_id == id);
    CHECK(announce(coordinator, 1, tensor("a", 4, id)).empty());
    CHECK(coordinator.waiting().empty());
    CHECK(decision_of(agree(coordinator, removal(id), kWorld)).error);
    CHECK(decision_of(agree(coordinator, removal(0), kWorld)).error);
}

TEST_CASE("ids of removed sets are given again, in the order of the removals") {
    Coordinator coordinator(3, kRoomy);
    REQUIRE(add_set(coordinator, {0}, kWorld) == 1);
    REQUIRE(add_set(coordinator, {1}, kWorld) == 2);
    REQUIRE(add_set(coordinator, {2}, kWorld) == 3);
    (void)announce(coordinator, 1, tensor("a", 4, 2));
    (void)agree(coordinator, removal(2), kWorld);
    (void)agree(coordinator, removal(1), kWorld);

    CHECK(add_set(coordinator, {0, 1}, kWorld) == 2);
    CHECK(add_set(coordinator, {1, 2}, kWorld) == 1);
    CHECK(add_set(coordinator, {0, 2}, kWorld) == 4);
    CHECK(announce(coordinator, 0, tensor("a", 4, 2)).empty());  // nothing of the old set is left
}

TEST_CASE("the ids of a removed set are free again, after their quarantine") {
    Coordinator coordinator(2, {.capacity = 1, .ids = 1, .quarantine = 3});
    const int id = add_set(coordinator, {0}, {0, 1});
    REQUIRE(decision_of(announce(coordinator, 0, tensor("a", 4, id))).id == 0);
    (void)agree(coordinator, removal(id));  // one entry

    CHECK(decision_of(agree(coordinator, tensor("b"))).id == kNoId);
    CHECK(decision_of(agree(coordinator, tensor("c"))).id == kNoId);
    CHECK(decision_of(agree(coordinator, tensor("d"))).id == 0);
}

TEST_CASE("an id that ends with its first use ends with its set, too") {
    Coordinator coordinator(2, {.capacity = 0, .ids = 1, .quarantine = 0});
    const int id = add_set(coordinator, {0}, {0, 1});
    auto rows = of(Op::allgather, "a");
    rows.process_set = id;
    REQUIRE(decision_of(announce(coordinator, 0, rows)).is_transient);

    (void)agree(coordinator, removal(id));

    CHECK(decision_of(agree(coordinator, of(Op::allgather, "b"))).is_transient);
}

TEST_CASE("what an outsider announces about a set is an error of this version") {
    Coordinator coordinator(3, kRoomy);
    const int id = add_set(coordinator, {0, 1}, kWorld);

    const auto entries = coordinator.announce(2, tensor("a", 4, id));

    REQUIRE_FALSE(entries);
    CHECK(entries.error().code == Errc::internal);
}
