// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_mailboxes.hpp"

#include "tests/unit/runtime/shm_fixture.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <utility>
#include <vector>

using hvd::rt::ByteRing;
using hvd::rt::ShmMailboxes;
using hvd::test::set_of;
using hvd::test::SharedControlMemory;

namespace {

using Bytes = std::vector<std::byte>;

Bytes message(int content, std::size_t size = 10) {
    return Bytes(size, static_cast<std::byte>(content));
}

struct Mailboxes {
    SharedControlMemory memory{3};
    std::vector<ShmMailboxes> of;

    Mailboxes() {
        of.reserve(3);
        for (int rank = 0; rank < 3; ++rank) {
            of.emplace_back(memory.group(rank), memory.pages);
        }
    }

    std::vector<std::pair<int, Bytes>> hear() {
        std::vector<std::pair<int, Bytes>> heard;
        while (true) {
            auto next = of[0].next_announcement();
            REQUIRE(next);
            if (!*next) {
                return heard;
            }
            heard.emplace_back((**next).rank, std::move((**next).message));
        }
    }

    Bytes decision(std::size_t rank) {
        auto next = of[rank].next_decision();
        REQUIRE(next);
        return next->value_or(Bytes{});
    }
};

}  // namespace

TEST_CASE("announcements reach the coordinator, each rank's in order") {
    Mailboxes world;
    world.of[1].send_announcement(message(1));
    world.of[1].send_announcement(message(2));
    world.of[0].send_announcement(message(3));
    CHECK(world.of[1].flush());
    CHECK_FALSE(world.of[1].flush());

    const auto heard = world.hear();

    CHECK(heard ==
          std::vector<std::pair<int, Bytes>>{{0, message(3)}, {1, message(1)}, {1, message(2)}});
}

TEST_CASE("ranks are heard in turn, so that none drowns another one") {
    Mailboxes world;
    for (const std::size_t rank : {1U, 2U}) {
        for (int count = 0; count < 3; ++count) {
            world.of[rank].send_announcement(message(static_cast<int>(rank)));
        }
        (void)world.of[rank].flush();
    }

    const auto heard = world.hear();

    REQUIRE(heard.size() == 6);
    CHECK(heard[0].first != heard[1].first);
}

TEST_CASE("an announcement wakes a coordinator that expects nothing") {
    Mailboxes world;
    world.of[2].send_announcement(message(1));

    (void)world.of[2].flush();

    CHECK(world.memory.was_woken(0));
}

TEST_CASE("a decision goes to the members of its set alone") {
    Mailboxes world;
    world.of[0].send_decision(set_of(1, {0, 2}), message(5));
    world.of[0].send_decision(set_of(0, {0, 1, 2}), message(6));

    CHECK(world.decision(0) == message(5));
    CHECK(world.decision(0) == message(6));
    CHECK(world.decision(2) == message(5));
    CHECK(world.decision(2) == message(6));
    CHECK(world.decision(1) == message(6));
    CHECK(world.decision(1).empty());
}

TEST_CASE("a message longer than its ring arrives in parts, and its writer is woken for them") {
    Mailboxes world;
    const auto long_message = message(7, 3 * ByteRing::kBytes);
    const bool is_decision = GENERATE(false, true);
    CAPTURE(is_decision);
    auto& writer = world.of[is_decision ? 0 : 1];
    const int writing_rank = is_decision ? 0 : 1;
    if (is_decision) {
        writer.send_decision(set_of(0, {0, 1, 2}), long_message);
        (void)world.decision(0);
        for (Bytes other; other.empty(); (void)writer.flush()) {
            other = world.decision(2);
        }
    } else {
        writer.send_announcement(long_message);
        (void)writer.flush();
    }
    REQUIRE(writer.has_output());

    Bytes arrived;
    for (int round = 0; round < 10 && arrived.empty(); ++round) {
        world.memory.group(writing_rank).about_to_sleep();
        (void)world.memory.was_woken(writing_rank);
        if (is_decision) {
            arrived = world.decision(1);
        } else if (auto heard = world.hear(); !heard.empty()) {
            arrived = heard.front().second;
        }
        if (arrived.empty()) {
            REQUIRE(world.memory.was_woken(writing_rank));
        }
        (void)writer.flush();
    }

    CHECK(arrived == long_message);
    CHECK_FALSE(writer.has_output());
}

TEST_CASE("a rank whose mailbox is full holds up no other one") {
    Mailboxes world;
    const auto all = set_of(0, {0, 1, 2});
    for (int count = 0; count < 20; ++count) {
        world.of[0].send_decision(all, message(count, ByteRing::kBytes / 8));
        CHECK(world.decision(2) == message(count, ByteRing::kBytes / 8));
    }

    CHECK(world.of[0].has_output());  // for rank 1, which sleeps
    for (int count = 0; count < 20; ++count) {
        CHECK(world.decision(1) == message(count, ByteRing::kBytes / 8));
        (void)world.of[0].flush();
    }
    CHECK_FALSE(world.of[0].has_output());
}
