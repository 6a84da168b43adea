// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/coordinator.hpp"

#include "tests/unit/runtime/announcements.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::Errc;
using hvd::coll::Op;
using hvd::rt::CacheId;
using hvd::rt::Coordinator;
using hvd::rt::IdPool;
using hvd::rt::Invalidation;
using hvd::rt::kNoId;
using hvd::rt::LogEntry;
using hvd::test::agree;
using hvd::test::announce;
using hvd::test::decision_of;
using hvd::test::kRoomy;
using hvd::test::of;
using hvd::test::tensor;

namespace {

CacheId id_of(const std::vector<LogEntry>& entries) {
    return decision_of(entries).id;
}

}  // namespace

TEST_CASE("agreed groups get ids of their own") {
    Coordinator coordinator(2, kRoomy);

    const auto a = agree(coordinator, tensor("a"));
    const auto b = agree(coordinator, tensor("b"));

    REQUIRE(a.size() == 1);
    REQUIRE(b.size() == 1);
    CHECK(id_of(a) == 0);
    CHECK(id_of(b) == 1);
}

TEST_CASE("a decision names the rank that announced last") {
    Coordinator coordinator(3, kRoomy);
    (void)announce(coordinator, 2, tensor("a"));
    (void)announce(coordinator, 0, tensor("a"));

    CHECK(decision_of(announce(coordinator, 1, tensor("a"))).rank == 1);
}

TEST_CASE("a rank that announces a cached group invalidates its id, once") {
    Coordinator coordinator(2, kRoomy);
    (void)agree(coordinator, tensor("a"));

    const auto changed = announce(coordinator, 1, tensor("a", 8));
    const auto other = announce(coordinator, 0, tensor("a", 8));

    CHECK(changed == std::vector<LogEntry>{Invalidation{.process_set = 0, .id = 0}});
    REQUIRE(other.size() == 1);
    CHECK(id_of(other) == 1);
}

TEST_CASE("ranks that disagree get an error and no id") {
    Coordinator coordinator(2, kRoomy);

    CHECK(announce(coordinator, 0, tensor("a", 1)).empty());
    const auto entries = announce(coordinator, 1, tensor("a", 2));

    REQUIRE(entries.size() == 1);
    CHECK(decision_of(entries).error);
    CHECK(id_of(entries) == kNoId);
}

TEST_CASE("an error is decided only when every rank has announced something with that name") {
    Coordinator coordinator(3, kRoomy);

    CHECK(announce(coordinator, 0, tensor("a", 1)).empty());
    CHECK(announce(coordinator, 1, tensor("a", 2)).empty());

    CHECK(decision_of(announce(coordinator, 2, tensor("a", 1))).error);
}

TEST_CASE("in a full cache the oldest group gives way") {
    Coordinator coordinator(2, {.capacity = 2, .ids = 100, .quarantine = 1});
    (void)agree(coordinator, tensor("a"));
    (void)agree(coordinator, tensor("b"));

    const auto c = agree(coordinator, tensor("c"));

    REQUIRE(c.size() == 2);
    CHECK(c.front() == LogEntry(Invalidation{.process_set = 0, .id = 0}));
    CHECK(id_of(c) == 2);
}

TEST_CASE("an id is used again only after its quarantine") {
    Coordinator coordinator(1, {.capacity = 1, .ids = 4, .quarantine = 5});
    std::vector<CacheId> ids;
    for (const auto* name : {"a", "b", "c", "d", "e"}) {
        ids.push_back(id_of(agree(coordinator, tensor(name), {0})));
    }

    CHECK(ids == std::vector<CacheId>{0, 1, 2, 3, 0});
}

TEST_CASE("the pool of ids keeps a retired one back while entries may still mean it") {
    IdPool pool({.capacity = 2, .ids = 2, .quarantine = 3});
    const auto first = pool.take();
    const auto second = pool.take();
    REQUIRE(pool.is_full());
    CHECK(first != second);
    CHECK(pool.take() == kNoId);

    pool.retire(second);
    CHECK_FALSE(pool.is_full());
    for (int entry = 0; entry < 2; ++entry) {
        pool.count_entry();
        CHECK(pool.take() == kNoId);
        CHECK_FALSE(pool.is_full());  // an attempt in vain takes no place
    }
    pool.count_entry();

    CHECK(pool.take() == second);
    CHECK(pool.is_full());
}

TEST_CASE("ids come back in the order in which they were retired") {
    IdPool pool({.capacity = 3, .ids = 3, .quarantine = 1});
    for (const CacheId id : {0U, 1U, 2U}) {
        REQUIRE(pool.take() == id);
    }
    pool.retire(2);
    pool.count_entry();
    pool.retire(0);

    CHECK(pool.take() == 2);
    CHECK(pool.take() == kNoId);
}

TEST_CASE("without a cache nothing has an id") {
    Coordinator coordinator(2, {.capacity = 0, .ids = 100, .quarantine = 1});

    CHECK(id_of(agree(coordinator, tensor("a"))) == kNoId);
}

TEST_CASE("an allgather's decision carries every rank's rows") {
    Coordinator coordinator(2, kRoomy);

    (void)announce(coordinator, 1, of(Op::allgather, "a", 5));
    const auto entries = announce(coordinator, 0, of(Op::allgather, "a", 3));

    REQUIRE(entries.size() == 1);
    CHECK(decision_of(entries).first_dims == std::vector<std::vector<std::int64_t>>{{3, 5}});
}

TEST_CASE("an alltoall's decision carries what each rank sends to each") {
    Coordinator coordinator(2, kRoomy);
    auto first = of(Op::alltoall, "a", 5);
    first.members.front().signature.splits = {1, 4};
    auto second = of(Op::alltoall, "a", 2);
    second.members.front().signature.splits = {2, 0};

    (void)announce(coordinator, 1, second);
    const auto decision = decision_of(announce(coordinator, 0, first));

    CHECK(decision.first_dims == std::vector<std::vector<std::int64_t>>{{1, 4, 2, 0}});
    CHECK(decision.awaits_memory);
}

TEST_CASE("what every rank must allocate first is ready by bits, with or without a cache") {
    Coordinator cached(2, kRoomy);
    Coordinator uncached(2, {.capacity = 0, .ids = 1, .quarantine = 0});

    const auto kept = decision_of(agree(cached, of(Op::allgather, "a")));
    CHECK(kept.awaits_memory);
    CHECK(kept.id != kNoId);
    CHECK_FALSE(kept.is_transient);

    const auto once = decision_of(agree(uncached, of(Op::allgather, "a")));
    CHECK(once.awaits_memory);
    CHECK(once.id == 0);
    CHECK(once.is_transient);
    // The one id is taken until the group was ready.
    CHECK_FALSE(decision_of(agree(uncached, of(Op::allgather, "b"))).awaits_memory);
    uncached.on_ready(std::vector<CacheId>{0});
    CHECK(decision_of(agree(uncached, of(Op::allgather, "c"))).id == 0);
}

TEST_CASE("a rank that has no memory for a result fails the operation, by name and rank") {
    Coordinator coordinator(2, kRoomy);
    auto failed = tensor("a");
    failed.failure = "there is no memory";

    (void)announce(coordinator, 0, tensor("a"));
    const auto decision = decision_of(announce(coordinator, 1, failed));

    REQUIRE(decision.error);
    CHECK(decision.error->code == Errc::unavailable);
    CHECK(decision.error->message == "tensor 'a': rank 1: there is no memory");
    CHECK(decision.id == kNoId);
}

TEST_CASE("a failure to allocate what was agreed takes the id back from the others") {
    const std::size_t capacity = GENERATE(std::size_t{100}, std::size_t{0});
    CAPTURE(capacity);
    Coordinator coordinator(2, {.capacity = capacity, .ids = 1000, .quarantine = 1});
    const auto agreed = decision_of(agree(coordinator, of(Op::allgather, "a")));
    REQUIRE(agreed.awaits_memory);
    auto failed = of(Op::allgather, "a");
    failed.failure = "there is no memory";

    const auto entries = announce(coordinator, 1, failed);
    REQUIRE(entries == std::vector<LogEntry>{Invalidation{.process_set = 0, .id = agreed.id}});
    // The other rank has waited with its ready bit, and announces again.
    const auto decision = decision_of(announce(coordinator, 0, of(Op::allgather, "a")));

    CHECK(decision.error);
}

TEST_CASE("what waits is listed with the ranks that it waits for") {
    Coordinator coordinator(3, kRoomy);
    (void)announce(coordinator, 1, tensor("a"));

    const auto waiting = coordinator.waiting();

    REQUIRE(waiting.size() == 1);
    CHECK(waiting.front().process_set == 0);
    CHECK(waiting.front().name == "a");
    CHECK(waiting.front().missing == std::vector{0, 2});
}
