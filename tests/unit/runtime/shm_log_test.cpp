// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_log.hpp"

#include "tests/unit/runtime/shm_fixture.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

using hvd::rt::kLogEntries;
using hvd::rt::LogWord;
using hvd::rt::ShmLog;
using hvd::test::set_of;
using hvd::test::SharedControlMemory;

namespace {

const auto kWorld = set_of(0, {0, 1, 2});
const auto kPair = set_of(1, {0, 1});

/// A log as three ranks see it.
struct Logs {
    SharedControlMemory memory{3};
    std::vector<ShmLog> logs;

    Logs() {
        logs.reserve(3);
        for (int rank = 0; rank < 3; ++rank) {
            logs.emplace_back(memory.group(rank), memory.control->log, memory.pages);
        }
    }

    /// One entry of rank 0 for `readers`. False where there is no room.
    bool append(std::uint32_t number, const hvd::coll::ProcessSet& readers = kPair) {
        const auto word = LogWord{.number = number}.bits();
        return logs[0].append({&word, 1}, readers);
    }

    std::vector<std::uint32_t> read_all(std::size_t rank) {
        std::vector<std::uint32_t> numbers;
        while (const auto word = logs[rank].read()) {
            numbers.push_back(word->number);
        }
        return numbers;
    }

    [[nodiscard]] bool was_woken(int rank) const { return memory.was_woken(rank); }
};

}  // namespace

TEST_CASE("an entry of the log is one word, whatever it says") {
    const auto kind = GENERATE(LogWord::Kind::decision, LogWord::Kind::invalidation,
                               LogWord::Kind::ready, LogWord::Kind::left);
    const bool more = GENERATE(false, true);
    const bool of_world = GENERATE(false, true);
    const auto number = GENERATE(0U, 65'535U, (1U << LogWord::kNumberBits) - 1);

    const auto word = LogWord::from(
        LogWord{.kind = kind, .more = more, .of_world = of_world, .number = number}.bits());

    CHECK(word.kind == kind);
    CHECK(word.more == more);
    CHECK(word.of_world == of_world);
    CHECK(word.number == number);
}

TEST_CASE("all ranks read the same entries in the same order, outsiders too") {
    Logs world;
    const std::vector<std::uint32_t> batch{LogWord{.more = true, .number = 7}.bits(),
                                           LogWord{.number = 8}.bits()};

    REQUIRE(world.append(1));
    REQUIRE(world.logs[2].append(batch, kWorld));
    REQUIRE(world.append(3));

    const std::vector<std::uint32_t> expected{1, 7, 8, 3};
    for (const std::size_t rank : {0U, 1U, 2U}) {
        CHECK(world.read_all(rank) == expected);
        CHECK(world.read_all(rank).empty());
    }
}

TEST_CASE("an entry wakes the members that sleep, and nobody else") {
    Logs world;
    for (const int rank : {1, 2}) {
        world.memory.group(rank).about_to_sleep();
    }

    REQUIRE(world.append(1, kPair));
    CHECK(world.was_woken(1));
    CHECK_FALSE(world.was_woken(2));
    world.memory.group(1).about_to_sleep();
    REQUIRE(world.append(2, kWorld));
    CHECK(world.was_woken(1));
    CHECK(world.was_woken(2));
}

TEST_CASE("a rank that does not sleep is not woken") {
    Logs world;

    REQUIRE(world.append(1, kWorld));

    CHECK_FALSE(world.was_woken(1));
    CHECK_FALSE(world.was_woken(2));
}

TEST_CASE("half full, the log wakes ranks that are behind, once each, whatever they expect") {
    Logs world;
    for (std::size_t entry = 0; entry < kLogEntries / 2; ++entry) {
        REQUIRE(world.append(1));
    }
    world.read_all(0);
    world.read_all(1);
    CHECK_FALSE(world.was_woken(2));

    REQUIRE(world.append(2));
    CHECK(world.was_woken(2));
    CHECK_FALSE(world.was_woken(1));
    for (int entry = 0; entry < 100; ++entry) {
        REQUIRE(world.append(3));
    }
    CHECK_FALSE(world.was_woken(2));

    // Once it has read, it may fall behind again.
    CHECK(world.read_all(2).size() == kLogEntries / 2 + 101);
    world.read_all(0);
    world.read_all(1);
    for (std::size_t entry = 0; entry <= kLogEntries / 2; ++entry) {
        REQUIRE(world.append(4));
    }
    CHECK(world.was_woken(2));
}

TEST_CASE("a full log takes nothing, and says so to a writer when there is room again") {
    Logs world;
    for (std::size_t entry = 0; entry < kLogEntries; ++entry) {
        REQUIRE(world.append(static_cast<std::uint32_t>(entry)));
    }
    world.read_all(0);
    world.read_all(1);
    (void)world.was_woken(2);

    CHECK_FALSE(world.append(1));
    CHECK_FALSE(world.logs[0].has_room_for_one());
    world.memory.group(0).about_to_sleep();
    const auto read = world.read_all(2);
    CHECK(read.size() == kLogEntries);
    CHECK(read.back() == kLogEntries - 1);

    CHECK(world.was_woken(0));
    CHECK(world.logs[0].has_room_for_one());
    CHECK(world.append(2));
    CHECK(world.read_all(2) == std::vector<std::uint32_t>{2});
}

TEST_CASE("a batch enters whole or not at all") {
    Logs world;
    for (std::size_t entry = 0; entry + 1 < kLogEntries; ++entry) {
        REQUIRE(world.append(1));
    }
    const std::vector<std::uint32_t> batch{LogWord{.more = true, .number = 8}.bits(),
                                           LogWord{.number = 9}.bits()};

    CHECK_FALSE(world.logs[0].append(batch, kPair));
    CHECK(world.append(2));
    for (const std::size_t rank : {0U, 1U, 2U}) {
        CHECK(world.read_all(rank).back() == 2);
    }
    CHECK(world.logs[0].append(batch, kPair));
}

TEST_CASE("writers on all ranks at once lose nothing and are named, over many laps of the ring") {
    Logs world;
    constexpr std::uint32_t kEach = 3 * kLogEntries;
    std::vector<std::vector<std::uint32_t>> seen(3);
    std::atomic<int> wrong_writers = 0;
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        threads.emplace_back([&, rank] {
            auto& log = world.logs[rank];
            std::uint32_t sent = 0;
            while (seen[rank].size() < std::size_t{3} * kEach) {
                const auto word = LogWord{.number = rank << 20 | sent}.bits();
                if (sent < kEach && log.append({&word, 1}, kWorld)) {
                    ++sent;
                }
                while (const auto next = log.read()) {
                    seen[rank].push_back(next->number);
                    wrong_writers +=
                        next->number >> 20 == static_cast<std::uint32_t>(next->writer) ? 0 : 1;
                }
            }
        });
    }
    threads.clear();

    CHECK(wrong_writers == 0);
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] == seen[2]);
    std::vector<std::uint32_t> next(3);
    bool in_order = true;
    for (const auto number : seen[0]) {
        in_order = in_order && (number & 0xfffff) == next[number >> 20]++;
    }
    CHECK(in_order);
}
