// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/messages.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <span>
#include <vector>

using hvd::coll::Op;
using hvd::rt::Announcement;
using hvd::rt::Decision;
using hvd::rt::decode_announcement;
using hvd::rt::decode_decision;
using hvd::rt::encode;
using hvd::rt::Kind;
using hvd::rt::Signature;

namespace {

Announcement full_announcement() {
    const Signature signature{.kind = Kind::remove_process_set,
                              .op = Op::reducescatter,
                              .reduce = hvd::coll::ReduceOp::adasum,
                              .type = hvd::coll::DataType::bf16,
                              .device = {.kind = hvd::coll::Device::Kind::cuda, .index = 3},
                              .over_contributing = true,
                              .wire = hvd::coll::Wire::f16,
                              .shape = {2, 0, 7},
                              .strides = {1, 2, 2},
                              .prescale = 0.25,
                              .postscale = -3,
                              .root = 5,
                              .splits = {0, 1, 1}};
    return {.process_set = 12,
            .members = {{.name = "layer1/kernel:0", .signature = signature},
                        {.name = "b\nc", .signature = {}}},
            .failure = "there is no memory",
            .asks_for_names = true,
            .ends_world = true};
}

Decision full_decision() {
    return {.process_set = 3,
            .members = full_announcement().members,
            .id = 77,
            .awaits_memory = true,
            .is_transient = true,
            .first_dims = {{1, 2, 3}, {}},
            .devices = {{3, 0, 1}, {}},
            .announcers = {0, 2},
            .error = hvd::Error{hvd::Errc::mismatch, "no"},
            .fusion_bytes = 1 << 20,
            .joined = {1, 4},
            .rank = 4,
            .ends_join = true,
            .set_id = 9};
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

TEST_CASE("what is left out of a decision stays left out") {
    Decision decision;
    decision.members = {{.name = "a", .signature = {}}};

    const auto copy = decode_decision(encode(decision));

    REQUIRE(copy);
    CHECK(*copy == decision);
    CHECK_FALSE(copy->error);
    CHECK_FALSE(copy->fusion_bytes);
}

TEST_CASE("a cut message is refused at every length, and a longer one too") {
    auto announcement = encode(full_announcement());
    auto decision = encode(full_decision());

    for (std::size_t length = 0; length < announcement.size(); ++length) {
        CHECK_FALSE(decode_announcement(std::span(announcement).first(length)));
    }
    for (std::size_t length = 0; length < decision.size(); ++length) {
        CHECK_FALSE(decode_decision(std::span(decision).first(length)));
    }
    announcement.push_back(std::byte{0});
    decision.push_back(std::byte{0});
    CHECK_FALSE(decode_announcement(announcement));
    CHECK_FALSE(decode_decision(decision));
}

TEST_CASE("a message with a value out of range or without members is refused") {
    const auto spoilt = [](void (*spoil)(Signature&)) {
        auto announcement = full_announcement();
        spoil(announcement.members.front().signature);
        auto decision = full_decision();
        decision.members = announcement.members;
        return !decode_announcement(encode(announcement)) && !decode_decision(encode(decision));
    };

    CHECK_FALSE(spoilt([](Signature&) {}));
    CHECK(spoilt([](Signature& s) { s.kind = static_cast<Kind>(4); }));
    CHECK(spoilt([](Signature& s) { s.op = static_cast<Op>(6); }));
    CHECK(spoilt([](Signature& s) { s.reduce = static_cast<hvd::coll::ReduceOp>(7); }));
    CHECK(spoilt([](Signature& s) { s.type = static_cast<hvd::coll::DataType>(13); }));
    CHECK(spoilt([](Signature& s) { s.device.kind = static_cast<hvd::coll::Device::Kind>(2); }));
    CHECK(spoilt([](Signature& s) { s.device.index = -1; }));
    CHECK(spoilt([](Signature& s) { s.shape = {2, -1}; }));
    CHECK(spoilt([](Signature& s) { s.splits = {-1}; }));
    CHECK_FALSE(decode_announcement(encode(Announcement{})));
    CHECK_FALSE(decode_decision(encode(Decision{})));
}

TEST_CASE("a scalar that is gathered along its first dimension is refused") {
    const auto op = GENERATE(Op::allgather, Op::alltoall);
    Announcement announcement{
        .process_set = 0, .members = {{.name = "a", .signature = {.op = op}}}, .failure = {}};

    CHECK_FALSE(decode_announcement(encode(announcement)));
    announcement.members.front().signature.shape = {0};
    CHECK(decode_announcement(encode(announcement)));
}
