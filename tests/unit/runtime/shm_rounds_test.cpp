// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_rounds.hpp"

#include "tests/unit/runtime/shm_fixture.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

using hvd::rt::Proposal;
using hvd::rt::ShmRounds;
using hvd::test::SharedControlMemory;

namespace {

using Ids = std::vector<std::uint32_t>;

struct Rounds {
    SharedControlMemory memory{3};
    std::vector<ShmRounds> of;

    Rounds() {
        of.reserve(3);
        for (int rank = 0; rank < 3; ++rank) {
            of.emplace_back(memory.group(rank), memory.pages);
        }
    }
};

}  // namespace

TEST_CASE("what all ranks propose is accepted by each, whenever it looks") {
    Rounds world;

    CHECK(world.of[0].propose(Ids{4, 9}, {}, {}));
    CHECK(world.of[1].propose(Ids{4, 9}, {}, {}));
    CHECK(world.of[0].outcome() == Proposal::waiting);
    CHECK(world.of[2].propose(Ids{4, 9}, {}, {}));
    CHECK(world.of[0].outcome() == Proposal::accepted);

    // Rank 0 is in the next round already; the others have not looked yet.
    CHECK(world.of[0].propose(Ids{1}, {}, {}));
    CHECK(world.of[0].outcome() == Proposal::waiting);
    CHECK(world.of[1].outcome() == Proposal::accepted);
    CHECK(world.of[2].outcome() == Proposal::accepted);
    CHECK(world.of[2].propose(Ids{1}, {}, {}));
    CHECK(world.of[1].propose(Ids{1}, {}, {}));
    for (auto& rank : world.of) {
        CHECK(rank.outcome() == Proposal::accepted);
    }
}

TEST_CASE("a rank that refuses ends the round for all, early or late") {
    const bool is_early = GENERATE(false, true);
    CAPTURE(is_early);
    Rounds world;
    if (is_early) {
        world.of[2].refuse();
        CHECK_FALSE(
            world.of[0].propose(Ids{3}, {}, {}));  // known to be in vain: nothing is published
        world.of[0].refuse();
    } else {
        CHECK(world.of[0].propose(Ids{3}, {}, {}));
        world.of[2].refuse();
        CHECK(world.of[0].outcome() == Proposal::refused);
    }
    CHECK_FALSE(world.of[1].propose(Ids{3}, {}, {}));

    for (auto& rank : world.of) {
        rank.begin_next();
    }
    for (auto& rank : world.of) {
        CHECK(rank.propose(Ids{3}, {}, {}));
    }
    CHECK(world.of[1].outcome() == Proposal::accepted);
}

TEST_CASE("a refusal does not take a proposal back") {
    Rounds world;
    CHECK(world.of[0].propose(Ids{3}, {}, {}));
    world.of[0].refuse();
    CHECK(world.of[1].propose(Ids{3}, {}, {}));
    CHECK(world.of[2].propose(Ids{3}, {}, {}));

    CHECK(world.of[1].outcome() == Proposal::accepted);
    CHECK(world.of[0].outcome() == Proposal::accepted);
}

TEST_CASE("ranks that propose different things refuse each other") {
    struct Pair {
        Ids one;
        Ids other;
    };
    const auto pair =
        GENERATE(values<Pair>({{{3}, {4}}, {{3}, {3, 4}}, {{1, 2}, {1, 3}}, {{}, {0}}}));
    Rounds world;

    CHECK(world.of[0].propose(pair.one, {}, {}));
    CHECK(world.of[1].propose(pair.other, {}, {}));

    CHECK(world.of[0].outcome() == Proposal::refused);
    CHECK(world.of[1].outcome() == Proposal::refused);
    CHECK_FALSE(world.of[1].propose(pair.one, {}, {}));  // one word in a round
}

TEST_CASE("a proposer that sleeps is woken by each rank that publishes in its round") {
    Rounds world;
    auto& sleeper = world.memory.group(0);
    const auto sleep = [&] {
        world.of[0].about_to_sleep();
        sleeper.about_to_sleep();
    };
    CHECK(world.of[0].propose(Ids{3}, {}, {}));

    sleep();
    CHECK(world.of[1].propose(Ids{3}, {}, {}));
    CHECK(world.memory.was_woken(0));
    world.of[0].awake();
    sleeper.awake();
    world.of[2].refuse();
    CHECK_FALSE(world.memory.was_woken(0));  // it looks by itself
    CHECK(world.of[0].outcome() == Proposal::refused);

    sleep();  // it proposes nothing any more, and waits for the log
    world.of[1].begin_next();
    world.of[1].refuse();
    CHECK_FALSE(world.memory.was_woken(0));
}

TEST_CASE("a proposer that sleeps knows for which rank") {
    Rounds world;
    CHECK(world.of[1].propose(Ids{3}, {}, {}));
    world.of[1].about_to_sleep();
    CHECK(world.of[2].propose(Ids{3}, {}, {}));
    world.of[1].awake();
    CHECK(world.of[1].outcome() == Proposal::waiting);
    world.of[1].about_to_sleep();
    CHECK(world.of[0].propose(Ids{3}, {}, {}));
    world.of[1].about_to_sleep();  // which comes too late: nobody is missing
    world.of[1].awake();

    CHECK(world.of[1].outcome() == Proposal::accepted);
    CHECK(world.of[1].awaited() == 0);
}

TEST_CASE("an accepted round gives every rank what each has put in, whenever it looks") {
    // Whole words and not, within the first cache line and beyond it, all and nothing, in the slot
    // and beside it.
    const auto sizes = GENERATE(values<std::array<std::size_t, 3>>(
        {{4, 4, 4}, {0, 64, 0}, {41, 1, 7}, {64, 64, 64}, {65, 64, 4096}, {0, 0, 1000}}));
    Rounds world;
    const auto payload = [&](std::size_t rank, int round) {
        return std::vector<std::byte>(
            sizes.at(rank), static_cast<std::byte>(10 * round) | static_cast<std::byte>(rank));
    };
    const auto require_all = [&](ShmRounds& rank, int round) {
        REQUIRE(rank.payloads().size() == 3);
        for (std::size_t peer = 0; peer < 3; ++peer) {
            const auto expected = payload(peer, round);
            CHECK(std::equal(expected.begin(), expected.end(), rank.payloads()[peer]));
        }
    };
    const auto propose = [&](std::size_t rank, int round) {
        const auto bytes = payload(rank, round);
        return world.of[rank].propose(Ids{7}, bytes, {});
    };

    for (std::size_t rank = 0; rank < 3; ++rank) {
        CHECK(propose(rank, 1));
    }
    CHECK(world.of[0].outcome() == Proposal::accepted);
    require_all(world.of[0], 1);
    CHECK(propose(0, 2));  // it goes on, while the others have not looked yet
    for (const std::size_t late : {1U, 2U}) {
        CHECK(world.of[late].outcome() == Proposal::accepted);
        require_all(world.of[late], 1);
        CHECK(propose(late, 2));
    }
    for (auto& rank : world.of) {
        CHECK(rank.outcome() == Proposal::accepted);
        require_all(rank, 2);
    }
}

TEST_CASE("what a rank alone reads of its payload does not travel") {
    Rounds world;
    const std::vector<std::byte> input(1000, std::byte{7});
    for (auto& rank : world.of) {
        REQUIRE(rank.propose(Ids{7}, input, {.begin = 400, .end = 900}));
    }
    REQUIRE(world.of[1].outcome() == Proposal::accepted);

    const std::span received(world.of[1].payloads()[0], input.size());
    for (const auto& part : {received.first(400), received.subspan(900)}) {
        CHECK(std::ranges::count(part, std::byte{7}) == static_cast<std::ptrdiff_t>(part.size()));
    }
    CHECK(std::ranges::count(received.subspan(400, 500), std::byte{0}) == 500);
}

TEST_CASE("many rounds of ranks that run are all accepted, in step, each with its payloads") {
    const std::size_t words = GENERATE(16U, 1024U);  // in the slot, and beside it
    Rounds world;
    constexpr std::uint32_t kRounds = 2000;
    std::atomic<std::uint32_t> accepted{0};
    std::atomic<std::uint32_t> wrong{0};
    std::vector<std::jthread> threads;
    for (std::uint32_t own = 0; own < 3; ++own) {
        threads.emplace_back([&, own] {
            auto& rank = world.of[own];
            for (std::uint32_t round = 0; round < kRounds; ++round) {
                std::vector<std::uint32_t> payload(words, round * 3 + own);
                if (!rank.propose(Ids{round}, std::as_bytes(std::span(payload)), {})) {
                    return;
                }
                auto outcome = rank.outcome();
                while (outcome == Proposal::waiting) {
                    std::this_thread::yield();
                    outcome = rank.outcome();
                }
                accepted += outcome == Proposal::accepted ? 1 : 0;
                for (std::uint32_t peer = 0; peer < 3; ++peer) {
                    payload.assign(words, round * 3 + peer);
                    const auto bytes = std::as_bytes(std::span(payload));
                    wrong +=
                        std::ranges::equal(bytes, std::span(rank.payloads()[peer], bytes.size()))
                            ? 0
                            : 1;
                }
            }
        });
    }
    threads.clear();

    CHECK(accepted == 3 * kRounds);
    CHECK(wrong == 0);
}
