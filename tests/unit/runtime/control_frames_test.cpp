// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/control_frames.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <span>
#include <utility>

namespace hvd::rt {
namespace {

const std::vector<frame::Any>& samples() {
    static const std::vector<frame::Any> all{
        frame::Announce{std::vector<std::byte>(3, std::byte{7})},
        frame::SetReady{.last = 1ULL << 40, .ids = {1, 2, 70'000}},
        frame::AnnounceLeave{},
        frame::Decided{.number = 7,
                       .process_set = 3,
                       .more = true,
                       .message = std::vector<std::byte>(2, std::byte{1})},
        frame::Invalidated{.number = 8, .id = 9},
        frame::Ready{.number = 1ULL << 33, .of_world = true, .last_rank = 6, .ids = {0, 5}},
        frame::Left{.number = 12, .rank = 3},
        frame::Goodbye{.finished = false, .lost = 2, .why = "rank 2 has died"},
        frame::Gone{.rank = 1, .finished = true},
        frame::Lost{.rank = 5, .why = "rank 5 has died"},
    };
    return all;
}

}  // namespace

TEST_CASE("control frames survive the wire, cut anywhere") {
    std::vector<std::byte> wire;
    for (const auto& sample : samples()) {
        const auto bytes = encode(sample);
        wire.insert(wire.end(), bytes.begin(), bytes.end());
    }
    for (std::size_t step = 1; step < wire.size(); step += 3) {
        FrameReader reader;
        std::vector<frame::Any> got;
        for (std::size_t at = 0; at < wire.size(); at += step) {
            reader.feed(std::span(wire).subspan(at, std::min(step, wire.size() - at)));
            while (true) {
                auto message = reader.next();
                REQUIRE(message);
                if (!*message) {
                    break;
                }
                got.push_back(**message);
            }
        }
        CHECK(got == samples());
    }
}

TEST_CASE("malformed control frames are errors") {
    const auto fails = [](std::vector<std::byte> bytes) {
        FrameReader reader;
        reader.feed(bytes);
        return !reader.next().has_value();
    };
    const frame::Any invalidated = frame::Invalidated{.number = 1, .id = 2};
    auto unknown = encode(invalidated);
    unknown[4] = std::byte{99};
    CHECK(fails(unknown));

    auto huge = encode(invalidated);
    std::memset(huge.data(), 0xff, 4);
    CHECK(fails(huge));

    auto empty = encode(invalidated);
    std::memset(empty.data(), 0, 4);
    CHECK(fails(empty));

    auto longer = encode(invalidated);
    longer[0] = static_cast<std::byte>(std::to_integer<int>(longer[0]) + 1);
    longer.push_back(std::byte{0});
    CHECK(fails(longer));

    auto shorter = encode(invalidated);
    shorter[0] = static_cast<std::byte>(std::to_integer<int>(shorter[0]) - 1);
    CHECK(fails(shorter));

    auto list = encode(frame::Ready{.number = 1, .of_world = true, .ids = {1}});
    list[18] = std::byte{200};  // more ids than there are bytes
    CHECK(fails(list));
}

}  // namespace hvd::rt
