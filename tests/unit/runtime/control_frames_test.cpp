// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/control_frames.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <span>
#include <utility>

namespace hvd::rt {
namespace {

const std::vector<frame::Any>& samples() {
    static const std::vector<frame::Any> kSamples{
        frame::Announce{std::vector<std::byte>(3, std::byte{7})},
        frame::SetReady{.last = 1ULL << 40, .ids = {1, 2, 70'000}},
        frame::AnnounceLeave{},
        frame::Decided{.number = 7, .process_set = 3, .more = true, .message = {}},
        frame::Invalidated{.number = 8, .id = 9},
        frame::Ready{.number = 1ULL << 33, .of_world = true, .ids = {0, 5}},
        frame::Left{.number = 12, .rank = 3},
        frame::Goodbye{.finished = false, .lost = 2, .why = "rank 2 has died"},
        frame::Gone{.rank = 1, .finished = true},
        frame::Lost{.rank = 5, .why = "rank 5 has died"},
    };
    return kSamples;
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
    auto unknown = encode(frame::Invalidated{1});
    unknown[4] = std::byte{99};
    CHECK(fails(unknown));

    auto huge = encode(frame::Invalidated{1});
    std::memset(huge.data(), 0xff, 4);
    CHECK(fails(huge));

    auto longer = encode(frame::Invalidated{1});
    longer[0] = std::byte{6};
    longer.push_back(std::byte{0});
    CHECK(fails(longer));

    auto list = encode(frame::Ready{{1}});
    list[5] = std::byte{200};  // more ids than there are bytes
    CHECK(fails(list));
}

}  // namespace hvd::rt
