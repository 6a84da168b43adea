// SPDX-License-Identifier: Apache-2.0
//
// The coordinator and the GPUs on which the members of a process set have their tensors.
#include "runtime/negotiation/coordinator.hpp"
#include "tests/unit/runtime/announcements.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <variant>
#include <vector>

using hvd::Errc;
using hvd::rt::Coordinator;
using hvd::rt::DeviceList;
using hvd::rt::Invalidation;
using hvd::test::add_set;
using hvd::test::announce;
using hvd::test::decision_of;
using hvd::test::join;
using hvd::test::join_on;
using hvd::test::kRoomy;
using hvd::test::on_gpu;
using hvd::test::tensor;

namespace {

using Lists = std::vector<DeviceList>;

}  // namespace

TEST_CASE("the number of a GPU is its rank's own affair, and the decision has all of them") {
    Coordinator coordinator(3, kRoomy);
    CHECK(announce(coordinator, 2, on_gpu(5)).empty());
    CHECK(announce(coordinator, 0, on_gpu(1)).empty());

    const auto decision = decision_of(announce(coordinator, 1, on_gpu(0)));

    CHECK_FALSE(decision.error);
    CHECK(decision.devices == Lists{{1, 0, 5}});
}

TEST_CASE("a decision about the hosts' tensors has no list of devices") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 0, tensor("a"));

    CHECK(decision_of(announce(coordinator, 1, tensor("a"))).devices.empty());
}

TEST_CASE("a group has a list for each of its tensors, which may be on different GPUs") {
    Coordinator coordinator(2, kRoomy);
    for (const int rank : {0, 1}) {
        auto group = on_gpu(2 * rank, "a");
        group.members.push_back(on_gpu(2 * rank + 1, "b").members.front());
        group.members.push_back(tensor("c").members.front());
        const auto entries = announce(coordinator, rank, group);
        if (rank == 1) {
            CHECK(decision_of(entries).devices == Lists{{0, 2}, {1, 3}, {}});
        }
    }
}

TEST_CASE("a list is of the set's members, in their order") {
    Coordinator coordinator(4, kRoomy);
    const int set = add_set(coordinator, {1, 3}, {0, 1, 2, 3});
    for (const int rank : {3, 1}) {
        auto announcement = on_gpu(10 + rank);
        announcement.process_set = set;
        const auto entries = announce(coordinator, rank, announcement);
        if (rank == 1) {
            CHECK(decision_of(entries).devices == Lists{{11, 13}});
        }
    }
}

TEST_CASE("a tensor that one rank has moved to another GPU loses its id, and gets a new list") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 0, on_gpu(0));
    const auto first = decision_of(announce(coordinator, 1, on_gpu(0)));
    REQUIRE(first.id != hvd::rt::kNoId);

    const auto moved = announce(coordinator, 1, on_gpu(1));
    REQUIRE(moved.size() == 1);
    CHECK(std::get<Invalidation>(moved.front()).id == first.id);
    const auto second = decision_of(announce(coordinator, 0, on_gpu(0)));

    CHECK(second.devices == Lists{{0, 1}});
    CHECK(second.id != first.id);
}

TEST_CASE("a rank that has joined takes part on the GPU that its join names") {
    Coordinator coordinator(3, kRoomy);
    (void)announce(coordinator, 0, join_on(7));
    (void)announce(coordinator, 2, on_gpu(1));

    const auto decision = decision_of(announce(coordinator, 1, on_gpu(2)));

    CHECK_FALSE(decision.error);
    CHECK(decision.joined == std::vector{0});
    CHECK(decision.devices == Lists{{7, 2, 1}});
}

TEST_CASE("what is on GPUs fails alone where a rank has joined without one") {
    Coordinator coordinator(3, kRoomy);
    (void)announce(coordinator, 1, join());
    (void)announce(coordinator, 2, on_gpu(1));

    const auto decision = decision_of(announce(coordinator, 0, on_gpu(2)));

    REQUIRE(decision.error);
    CHECK(decision.error->code == Errc::mismatch);
    CHECK(decision.error->message ==
          "tensor 'a' is on a GPU, but rank 1 has joined without one: name its GPU, "
          "hvd.join(device)");
    CHECK_FALSE(decision.ends_world);
    (void)announce(coordinator, 0, tensor("b"));
    CHECK_FALSE(decision_of(announce(coordinator, 2, tensor("b"))).error);
}

TEST_CASE("the GPU of a join is forgotten once all have joined") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 0, join_on(7));
    (void)announce(coordinator, 1, join_on(6));
    (void)announce(coordinator, 0, join());
    const auto decision = decision_of(announce(coordinator, 1, on_gpu(1)));

    REQUIRE(decision.error);
}
