// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/agent_protocol.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

namespace hvd::coll {
namespace {

using namespace agent_message;  // NOLINT(google-build-using-namespace)

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
}

std::vector<RankMessage> rank_messages() {
    return {Hello{.version = 3, .job_id = "job", .rank = 7},
            Put{.request = 1, .key = "world/0/shm", .value = bytes_of("value")},
            Put{.request = 2, .key = "", .value = {}},
            Get{.request = 0xffffffffU, .key = "world/0/shm"},
            Report{.kind = ReportKind::peer_lost, .peer = -1, .text = "rank 3 is gone"}};
}

std::vector<AgentMessage> agent_messages() {
    return {Welcome{.version = 1, .first_world = 2}, Done{.request = 9},
            Value{.request = 10, .value = bytes_of("bytes")},
            Failed{.request = 11, .why = "no such rank"}, Lost{.rank = 3, .why = "it has died"}};
}

/// Everything that comes out when the bytes arrive in parts of `step`.
template <class Message>
std::vector<Message> read_all(const std::vector<std::byte>& bytes, std::size_t step) {
    FrameReader<Message> reader;
    std::vector<Message> messages;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
        reader.feed(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
        while (true) {
            auto next = reader.next();
            REQUIRE(next.has_value());
            if (!*next) {
                break;
            }
            messages.push_back(std::move(**next));
        }
    }
    return messages;
}

template <class Message>
std::vector<std::byte> frames_of(const std::vector<Message>& messages) {
    std::vector<std::byte> bytes;
    for (const auto& message : messages) {
        const auto frame = encode(message);
        bytes.insert(bytes.end(), frame.begin(), frame.end());
    }
    return bytes;
}

template <class Message>
Result<std::optional<Message>> read_one(std::span<const std::byte> bytes) {
    FrameReader<Message> reader;
    reader.feed(bytes);
    return reader.next();
}

TEST_CASE("messages survive the way, however the bytes are cut") {
    const auto step = GENERATE(std::size_t{1}, std::size_t{3}, std::size_t{7}, std::size_t{1000});
    CAPTURE(step);

    CHECK(read_all<RankMessage>(frames_of(rank_messages()), step) == rank_messages());
    CHECK(read_all<AgentMessage>(frames_of(agent_messages()), step) == agent_messages());
}

TEST_CASE("a frame that is cut short is no message yet") {
    const auto frame = encode(rank_messages().front());
    for (std::size_t size = 0; size < frame.size(); ++size) {
        const auto next = read_one<RankMessage>(std::span(frame).first(size));
        REQUIRE(next.has_value());
        CHECK_FALSE(next->has_value());
    }
}

TEST_CASE("no message is longer or shorter than its frame") {
    for (const auto& message : rank_messages()) {
        auto longer = encode(message);
        longer.push_back(std::byte{0});
        longer[0] = static_cast<std::byte>(std::to_integer<unsigned>(longer[0]) + 1);
        CHECK_FALSE(read_one<RankMessage>(longer).has_value());

        auto shorter = encode(message);
        shorter.pop_back();
        shorter[0] = static_cast<std::byte>(std::to_integer<unsigned>(shorter[0]) - 1);
        CHECK_FALSE(read_one<RankMessage>(shorter).has_value());
    }
}

TEST_CASE("frames of no or of enormous length are refused before memory is taken") {
    CHECK_FALSE(read_one<RankMessage>(bytes_of(std::string_view("\0\0\0\0", 4))).has_value());
    CHECK_FALSE(read_one<RankMessage>(bytes_of("\xff\xff\xff\xff")).has_value());
}

TEST_CASE("unknown types and the other side's messages are refused") {
    const std::vector<std::byte> unknown{std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0},
                                         std::byte{77}};
    const auto next = read_one<RankMessage>(unknown);

    REQUIRE_FALSE(next.has_value());
    CHECK_THAT(next.error().message, Catch::Contains("77"));
    CHECK_FALSE(read_one<RankMessage>(encode(agent_messages().front())).has_value());
    CHECK_FALSE(read_one<AgentMessage>(encode(rank_messages().front())).has_value());
}

TEST_CASE("a key tells the world that it is of") {
    CHECK(world_prefix(12) == "world/12/");
    CHECK(world_of(world_prefix(12) + "rank/3") == 12);
    for (const auto* key : {"", "world", "world/", "world/3", "world//x", "world/-1/x", "world/x/1",
                            "my/world/1/x", "world/99999999999/x"}) {
        CHECK_FALSE(world_of(key));
    }
}

TEST_CASE("the members of a world are asked for by a key of it") {
    CHECK(world_of(members_key(12)) == 12);
    CHECK(is_members_key(members_key(3)));
    for (const auto* key : {"world/3/key", "world/3/members/1", "members", "my/world/3/members"}) {
        CHECK_FALSE(is_members_key(key));
    }
    const std::vector<WorldMember> members{{.rank = 0, .host = 0}, {.rank = 7, .host = 2}};
    const auto bytes = encode_members(members);

    CHECK(decode_members(bytes).value() == members);
    CHECK_FALSE(decode_members(std::span(bytes).first(bytes.size() - 1)).has_value());
}

TEST_CASE("a report of an unknown kind is refused") {
    auto frame = encode(RankMessage{Report{}});
    frame[5] = std::byte{9};

    CHECK_FALSE(read_one<RankMessage>(frame).has_value());
}

}  // namespace
}  // namespace hvd::coll
