// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/world_members.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>
#include <vector>

using hvd::launch::JobRecord;
using hvd::launch::KeyStore;
using hvd::launch::WorldMembers;
namespace wire = hvd::launch::wire;

namespace {

/// A job of ranks that live, two on each host.
JobRecord job_of(int size) {
    JobRecord record;
    for (int rank = 0; rank < size; ++rank) {
        record.ranks.emplace_back();
        record.ranks.back().rank = rank;
        record.ranks.back().host = "node" + std::to_string(rank / 2);
    }
    return record;
}

KeyStore::Asker asker(int rank) {
    return {.host = static_cast<std::size_t>(rank / 2), .rank = rank, .request = 7};
}

void end(JobRecord& record, std::size_t rank) {
    record.ranks[rank].exited =
        wire::Exited{.rank = static_cast<int>(rank), .wait_status = 9, .oom = {}};
}

}  // namespace

TEST_CASE("a world is decided on when all ranks that live have asked for it") {
    auto record = job_of(3);
    end(record, 1);
    WorldMembers members;

    members.ask(1, asker(2));
    CHECK(members.decide(record).empty());
    members.ask(1, asker(0));
    const auto decisions = members.decide(record);

    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].ranks == std::vector<int>{0, 2});
    CHECK(decisions[0].askers == std::vector<KeyStore::Asker>{asker(0), asker(2)});
    CHECK(members.decide(record).empty());
}

TEST_CASE("the end of the last rank that others wait for decides, too") {
    auto record = job_of(3);
    WorldMembers members;
    members.ask(1, asker(0));
    members.ask(1, asker(2));
    CHECK(members.decide(record).empty());

    end(record, 1);

    REQUIRE(members.decide(record).size() == 1);
}

TEST_CASE("a rank that has asked and ended is no member") {
    auto record = job_of(3);
    WorldMembers members;
    members.ask(1, asker(0));
    members.ask(1, asker(1));
    end(record, 1);
    members.ask(1, asker(2));

    const auto decisions = members.decide(record);

    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].ranks == std::vector<int>{0, 2});
}

TEST_CASE("the ranks of a host that is lost are no members, though nobody saw them end") {
    auto record = job_of(4);
    WorldMembers members;
    members.ask(2, asker(0));
    members.ask(2, asker(1));
    CHECK(members.decide(record).empty());

    record.lost_hosts.push_back({.host = "node1", .time_ns = 0, .why = "silent"});

    REQUIRE(members.decide(record).size() == 1);
}

TEST_CASE("a rank that asks for another world is missed in this one") {
    auto record = job_of(2);
    WorldMembers members;
    members.ask(1, asker(0));
    members.ask(2, asker(1));

    CHECK(members.decide(record).empty());
}
