// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/byte_ring.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <memory>
#include <random>
#include <vector>

using hvd::rt::ByteRing;
using hvd::rt::RingReader;
using hvd::rt::RingWriter;

namespace {

std::vector<std::byte> message_of(std::size_t size, std::size_t seed) {
    std::vector<std::byte> message(size);
    for (std::size_t index = 0; index < size; ++index) {
        message[index] = static_cast<std::byte>(index * 31 + seed);
    }
    return message;
}

}  // namespace

TEST_CASE("messages arrive whole and in order, larger than the ring too") {
    const auto ring = std::make_unique<ByteRing>();
    RingWriter writer(*ring);
    RingReader reader(*ring);
    std::mt19937 random(7);
    std::vector<std::vector<std::byte>> sent;
    for (std::size_t number = 0; number < 200; ++number) {
        const auto size =
            number % 50 == 49 ? 3 * ByteRing::kBytes + number : std::size_t{random() % 5000};
        sent.push_back(message_of(size, number));
        writer.put(sent.back());
    }

    for (const auto& expected : sent) {
        auto received = reader.next();
        for (int turn = 0; turn < 10 && received && !*received; ++turn) {
            (void)writer.flush();
            received = reader.next();
        }
        REQUIRE(received);
        REQUIRE(*received);
        REQUIRE(**received == expected);
    }
    CHECK_FALSE(*reader.next());
}

TEST_CASE("a writer that had no room is woken once there is some") {
    const auto ring = std::make_unique<ByteRing>();
    RingWriter writer(*ring);
    RingReader reader(*ring);

    writer.put(message_of(ByteRing::kBytes * 2, 1));
    CHECK(writer.flush());
    CHECK_FALSE(reader.must_wake_writer());
    CHECK_FALSE(*reader.next());
    CHECK(reader.must_wake_writer());
    CHECK_FALSE(reader.must_wake_writer());
}

TEST_CASE("a length that cannot be is refused") {
    const auto ring = std::make_unique<ByteRing>();
    RingReader reader(*ring);
    for (std::size_t index = 0; index < 4; ++index) {
        ring->bytes[index] = std::byte{0xff};
    }
    ring->written = 4;

    CHECK_FALSE(reader.next());
}
