// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/messages.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <span>
#include <vector>

using hvd::rt::Announcement;
using hvd::rt::Decision;
using hvd::rt::decode_announcement;
using hvd::rt::decode_decision;
using hvd::rt::encode;
using hvd::rt::Signature;

namespace {

Announcement full_announcement() {
    const Signature signature{.op = hvd::coll::Op::broadcast,
                              .reduce = hvd::coll::ReduceOp::product,
                              .type = hvd::coll::DataType::bf16,
                              .device = hvd::coll::Device::Kind::cuda,
                              .shape = {2, 0, 7},
                              .strides = {1, 2, 2},
                              .prescale = 0.25,
                              .postscale = -3,
                              .root = 5};
    return {.members = {{.name = "layer1/kernel:0", .signature = signature},
                        {.name = "b\nc", .signature = {}}}};
}

Decision full_decision() {
    return {.unit = "a\nb",
            .id = 77,
            .rows = {{1, 2, 3}, {}},
            .error = hvd::Error{hvd::Errc::mismatch, "no"},
            .fusion_bytes = 1 << 20};
}

}  // namespace

TEST_CASE("announcements and decisions survive the way") {
    const auto announcement = decode_announcement(encode(full_announcement()));
    const auto decision = decode_decision(encode(full_decision()));

    REQUIRE(announcement);
    CHECK(*announcement == full_announcement());
    REQUIRE(decision);
    CHECK(*decision == full_decision());
}

TEST_CASE("a cut message is refused at every length") {
    const auto announcement = encode(full_announcement());
    const auto decision = encode(full_decision());

    for (std::size_t length = 0; length < announcement.size(); ++length) {
        CHECK_FALSE(decode_announcement(std::span(announcement).first(length)));
    }
    for (std::size_t length = 0; length < decision.size(); ++length) {
        CHECK_FALSE(decode_decision(std::span(decision).first(length)));
    }
}

TEST_CASE("a message with a value out of range or without members is refused") {
    Announcement bad = full_announcement();
    bad.members.front().signature.type = static_cast<hvd::coll::DataType>(13);

    CHECK_FALSE(decode_announcement(encode(bad)));
    CHECK_FALSE(decode_announcement(encode(Announcement{})));
}
