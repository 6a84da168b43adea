// SPDX-License-Identifier: Apache-2.0
//
// Ranks that group the same tensors in different ways.
#include "runtime/negotiation/coordinator.hpp"
#include "tests/unit/runtime/announcements.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::rt::Coordinator;
using hvd::rt::Decision;
using hvd::test::agree;
using hvd::test::announce;
using hvd::test::decision_of;
using hvd::test::group;
using hvd::test::kRoomy;
using hvd::test::tensor;

namespace {

std::vector<std::string> names_of(const Decision& decision) {
    std::vector<std::string> names;
    for (const auto& member : decision.members) {
        names.push_back(member.name);
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

/// The decision must be a mismatch with this text.
void require_mismatch(const Decision& decision, const std::string& message) {
    REQUIRE(decision.error);
    CHECK(decision.error->code == Errc::mismatch);
    CHECK(decision.error->message == message);
}

/// No trace is left of what went wrong.
void require_that_all_goes_on(Coordinator& coordinator, const std::vector<std::string>& names) {
    CHECK(coordinator.waiting().empty());
    for (const auto& name : names) {
        CHECK_FALSE(decision_of(agree(coordinator, tensor(name))).error);
    }
    CHECK_FALSE(decision_of(agree(coordinator, group(names))).error);
}

}  // namespace

TEST_CASE("groups that are equal are agreed on as one") {
    Coordinator coordinator(2, kRoomy);

    const auto decision = decision_of(agree(coordinator, group({"a", "b"})));

    CHECK_FALSE(decision.error);
    CHECK(names_of(decision) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("groups of two and of three tensors are a mismatch") {
    Coordinator coordinator(2, kRoomy);

    CHECK(announce(coordinator, 0, group({"a", "b"})).empty());
    const auto decision = decision_of(announce(coordinator, 1, group({"a", "b", "c"})));

    require_mismatch(decision,
                     "tensor 'a': ranks disagree on its group: a group of 2 on rank 0, a group of "
                     "3 with 'c' on rank 1");
    CHECK(names_of(decision) == std::vector<std::string>{"a", "b", "c"});
    CHECK(coordinator.waiting().empty());
}

TEST_CASE("the same tensors in another order are a mismatch") {
    Coordinator coordinator(2, kRoomy);

    (void)announce(coordinator, 0, group({"a", "b"}));
    const auto decision = decision_of(announce(coordinator, 1, group({"b", "a"})));

    require_mismatch(decision,
                     "tensor 'a': ranks disagree on its group: a group of 2 with 'a', 'b' on rank "
                     "0, a group of 2 with 'b', 'a' on rank 1");
    require_that_all_goes_on(coordinator, {"a", "b"});
}

TEST_CASE("groups that share one tensor are a mismatch") {
    Coordinator coordinator(2, kRoomy);

    (void)announce(coordinator, 0, group({"a", "b"}));
    const auto decision = decision_of(announce(coordinator, 1, group({"b", "c"})));

    CHECK(decision.error);
    CHECK(names_of(decision) == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("a group and single tensors are a mismatch, for each single when it comes") {
    Coordinator coordinator(2, kRoomy);

    (void)announce(coordinator, 0, group({"a", "b"}));
    const auto first = decision_of(announce(coordinator, 1, tensor("a")));
    require_mismatch(first,
                     "tensor 'a': ranks disagree on its group: a group of 2 with 'b' on rank 0, a "
                     "tensor by itself on rank 1");
    CHECK(names_of(first) == std::vector<std::string>{"a", "b"});

    const auto second = decision_of(announce(coordinator, 1, tensor("b")));
    require_mismatch(second,
                     "tensor 'b' of rank 1: other ranks had it in another group, which has failed");
    CHECK(names_of(second) == std::vector<std::string>{"b"});
    require_that_all_goes_on(coordinator, {"a", "b"});
}

TEST_CASE("a counterpart that comes late takes a group that is new with it, on all ranks") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 0, group({"a", "b"}));
    REQUIRE(decision_of(announce(coordinator, 1, tensor("a"))).error);
    CHECK(announce(coordinator, 0, group({"b", "c"})).empty());

    const auto late = decision_of(announce(coordinator, 1, tensor("b")));
    CHECK(late.error);
    CHECK(names_of(late) == std::vector<std::string>{"b", "c"});
    const auto other_half = decision_of(announce(coordinator, 1, group({"b", "c"})));
    CHECK(other_half.error);

    require_that_all_goes_on(coordinator, {"a", "b", "c"});
}

TEST_CASE("singles that wait already fail together with the group") {
    Coordinator coordinator(2, kRoomy);

    (void)announce(coordinator, 1, tensor("a"));
    (void)announce(coordinator, 1, tensor("b"));
    const auto decision = decision_of(announce(coordinator, 0, group({"a", "b"})));

    CHECK(decision.error);
    CHECK(names_of(decision) == std::vector<std::string>{"a", "b"});
    require_that_all_goes_on(coordinator, {"a", "b"});
}

TEST_CASE("of three ranks, the one that groups otherwise fails with the others") {
    Coordinator coordinator(3, kRoomy);

    (void)announce(coordinator, 0, group({"a", "b"}));
    (void)announce(coordinator, 2, group({"a", "b"}));
    const auto decision = decision_of(announce(coordinator, 1, tensor("b")));
    CHECK(decision.error);
    CHECK(names_of(decision) == std::vector<std::string>{"a", "b"});

    const auto later = decision_of(announce(coordinator, 1, tensor("a")));
    CHECK(later.error);
    CHECK(names_of(later) == std::vector<std::string>{"a"});
    CHECK(coordinator.waiting().empty());
    CHECK_FALSE(decision_of(agree(coordinator, group({"a", "b"}), {0, 1, 2})).error);
}

TEST_CASE("a tensor that is new is no counterpart of what has failed") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 0, group({"a", "b", "c"}));
    REQUIRE(decision_of(announce(coordinator, 1, group({"a", "b"}))).error);

    // Rank 1 owes a counterpart of "c", in whatever it comes: here it has company that is new.
    CHECK(announce(coordinator, 1, group({"c", "d"})).empty());
    CHECK_FALSE(decision_of(announce(coordinator, 0, group({"c", "d"}))).error);
}

TEST_CASE("many singles around groups are told in words that do not grow") {
    Coordinator coordinator(2, kRoomy);
    std::vector<std::string> names;
    for (int index = 0; index < 200; ++index) {
        names.push_back("t" + std::to_string(index));
    }
    auto other = names;
    std::ranges::reverse(other);

    (void)announce(coordinator, 0, group(names));
    const auto decision = decision_of(announce(coordinator, 1, group(other)));

    REQUIRE(decision.error);
    CHECK(decision.error->message.size() < 200);
    require_that_all_goes_on(coordinator, names);
}

TEST_CASE("a rank that changes its grouping replaces what it said") {
    Coordinator coordinator(2, kRoomy);
    (void)announce(coordinator, 0, tensor("a"));
    (void)announce(coordinator, 0, group({"a", "b"}));

    CHECK_FALSE(decision_of(announce(coordinator, 1, group({"a", "b"}))).error);
}

TEST_CASE("a rank that groups otherwise takes back the ids of all that its tensors are in") {
    Coordinator coordinator(2, kRoomy);
    const auto pair = decision_of(agree(coordinator, group({"a", "b"}))).id;
    const auto single = decision_of(agree(coordinator, tensor("c"))).id;
    const auto other = decision_of(agree(coordinator, tensor("d"))).id;
    using hvd::rt::Invalidation;
    using hvd::rt::LogEntry;

    // Rank 0 has set the ready bits of both, and hears of the change by this alone.
    const auto entries = announce(coordinator, 1, group({"b", "c"}));
    CHECK(entries == std::vector<LogEntry>{Invalidation{.process_set = 0, .id = pair},
                                           Invalidation{.process_set = 0, .id = single}});
    CHECK(decision_of(announce(coordinator, 0, group({"a", "b"}))).error);
    CHECK(decision_of(announce(coordinator, 0, tensor("c"))).error);

    CHECK(coordinator.waiting().empty());
    CHECK(announce(coordinator, 1, tensor("d", 7)) ==
          std::vector<LogEntry>{Invalidation{.process_set = 0, .id = other}});
}
