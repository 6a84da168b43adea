// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/coordinator.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <variant>
#include <vector>

using hvd::rt::Announcement;
using hvd::rt::CacheLimits;
using hvd::rt::Coordinator;
using hvd::rt::Decision;
using hvd::rt::Invalidation;
using hvd::rt::kNoId;
using hvd::rt::Verdict;

namespace {

Announcement tensor(const std::string& name, std::int64_t elements = 4) {
    Announcement announcement{.members = {{.name = name, .signature = {}}}};
    announcement.members.front().signature.shape = {elements};
    return announcement;
}

/// All ranks announce the same: what comes of the last one.
std::vector<Verdict> agree(Coordinator& coordinator, const std::string& name, int ranks = 2) {
    std::vector<Verdict> verdicts;
    for (int rank = 0; rank < ranks; ++rank) {
        verdicts = coordinator.announce(rank, tensor(name));
    }
    return verdicts;
}

std::uint32_t id_of(const Verdict& verdict) {
    return std::get<Decision>(verdict).id;
}

constexpr CacheLimits kRoomy{.capacity = 100, .ids = 1000, .quarantine = 10};

}  // namespace

TEST_CASE("agreed units get ids of their own") {
    Coordinator coordinator(2, kRoomy);

    const auto a = agree(coordinator, "a");
    const auto b = agree(coordinator, "b");

    REQUIRE(a.size() == 1);
    REQUIRE(b.size() == 1);
    CHECK(id_of(a.front()) == 0);
    CHECK(id_of(b.front()) == 1);
}

TEST_CASE("a rank that announces a cached unit invalidates its id, once") {
    Coordinator coordinator(2, kRoomy);
    (void)agree(coordinator, "a");

    const auto changed = coordinator.announce(1, tensor("a", 8));
    const auto other = coordinator.announce(0, tensor("a", 8));

    CHECK(changed == std::vector<Verdict>{Invalidation{0}});
    REQUIRE(other.size() == 1);
    CHECK(id_of(other.front()) == 1);
}

TEST_CASE("ranks that disagree get an error and no id") {
    Coordinator coordinator(2, kRoomy);

    CHECK(coordinator.announce(0, tensor("a", 1)).empty());
    const auto verdicts = coordinator.announce(1, tensor("a", 2));

    REQUIRE(verdicts.size() == 1);
    const auto& decision = std::get<Decision>(verdicts.front());
    CHECK(decision.error);
    CHECK(decision.id == kNoId);
}

TEST_CASE("in a full cache the oldest unit gives way") {
    Coordinator coordinator(2, {.capacity = 2, .ids = 100, .quarantine = 1});
    (void)agree(coordinator, "a");
    (void)agree(coordinator, "b");

    const auto c = agree(coordinator, "c");

    REQUIRE(c.size() == 2);
    CHECK(c.front() == Verdict(Invalidation{0}));
    CHECK(id_of(c.back()) == 2);
}

TEST_CASE("an id is used again only after its quarantine") {
    Coordinator coordinator(1, {.capacity = 1, .ids = 4, .quarantine = 5});
    std::vector<std::uint32_t> ids;
    for (const auto* name : {"a", "b", "c", "d", "e"}) {
        ids.push_back(id_of(agree(coordinator, name, 1).back()));
    }

    CHECK(ids == std::vector<std::uint32_t>{0, 1, 2, 3, 0});
}

TEST_CASE("without a cache nothing has an id") {
    Coordinator coordinator(2, {.capacity = 0, .ids = 100, .quarantine = 1});

    CHECK(id_of(agree(coordinator, "a").front()) == kNoId);
}

TEST_CASE("an allgather's decision carries every rank's rows") {
    Coordinator coordinator(2, kRoomy);
    auto first = tensor("a", 3);
    auto second = tensor("a", 5);
    first.members.front().signature.op = hvd::coll::Op::allgather;
    second.members.front().signature.op = hvd::coll::Op::allgather;

    (void)coordinator.announce(1, second);
    const auto verdicts = coordinator.announce(0, first);

    REQUIRE(verdicts.size() == 1);
    CHECK(std::get<Decision>(verdicts.front()).rows ==
          std::vector<std::vector<std::int64_t>>{{3, 5}});
}
