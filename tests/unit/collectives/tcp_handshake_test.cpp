// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/handshake.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <utility>

namespace hvd::coll::net {
namespace {

WorldKey key_of(int seed) {
    WorldKey key{};
    key.fill(static_cast<std::byte>(seed));
    return key;
}

Nonce nonce_of(int seed) {
    Nonce nonce{};
    nonce.fill(static_cast<std::byte>(seed));
    return nonce;
}

Handshake caller(int seed = 1, int to = 0, Purpose purpose = Purpose::data) {
    return Handshake::connecting(key_of(seed), {.rank = 3, .pid = 33, .host = "node3"}, to, purpose,
                                 nonce_of(5));
}

Handshake listener(int seed = 1) {
    return Handshake::listening(key_of(seed), {.rank = 0, .pid = 11, .host = "node0"}, nonce_of(6));
}

/// Passes what `from` has to say, byte by byte.
Status pass(Handshake& from, Handshake& to) {
    for (const auto byte : from.take_output()) {
        if (to.needed() == 0) {
            return Error{Errc::internal, "more than was needed"};
        }
        HVD_TRY_STATUS(to.feed({&byte, 1}));
    }
    return ok();
}

}  // namespace

TEST_CASE("two ranks of one job prove it to each other") {
    auto a = caller();
    auto b = listener();

    REQUIRE(pass(a, b));
    CHECK_FALSE(b.is_done());
    REQUIRE(pass(b, a));
    CHECK(a.is_answered());
    CHECK_FALSE(a.is_done());
    a.prove();
    REQUIRE(pass(a, b));
    CHECK(b.is_done());
    REQUIRE(pass(b, a));
    CHECK(a.is_done());

    CHECK(b.peer() == RankIdentity{.rank = 3, .pid = 33, .host = "node3"});
    CHECK(b.purpose() == Purpose::data);
    CHECK(a.peer() == RankIdentity{.rank = 0, .pid = 11, .host = "node0"});
    CHECK(a.needed() == 0);
    CHECK(b.needed() == 0);
}

TEST_CASE("without the job's key neither end is believed") {
    auto a = caller(1);
    auto b = listener(2);
    REQUIRE(pass(a, b));
    const auto refused = pass(b, a);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::invalid_argument);

    // A peer that connects without it can neither invent the proof nor send the listener's own MAC
    // back.
    auto honest = listener(1);
    auto forger = caller(2);
    REQUIRE(pass(forger, honest));
    const auto answer = honest.take_output();
    const auto mac = std::span(answer).last(32);
    REQUIRE(honest.needed() == 32);
    CHECK_FALSE(honest.feed(mac));
    CHECK_FALSE(honest.is_done());
}

TEST_CASE("a recorded proof is worth nothing in the next connection") {
    auto a = caller();
    auto b = listener();
    const auto hello = a.take_output();
    REQUIRE(b.feed(hello));
    REQUIRE(pass(b, a));
    a.prove();
    const auto proof = a.take_output();

    auto next =
        Handshake::listening(key_of(1), {.rank = 0, .pid = 11, .host = "node0"}, nonce_of(7));
    REQUIRE(next.feed(hello));
    (void)next.take_output();
    CHECK_FALSE(next.feed(proof));
    REQUIRE(b.feed(proof));
}

TEST_CASE("one changed bit anywhere ends the handshake") {
    auto model = caller();
    const auto hello = model.take_output();
    for (std::size_t bit = 0; bit < hello.size() * 8; ++bit) {
        auto a = caller();
        auto b = listener();
        auto changed = a.take_output();
        changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        if (!b.feed(changed)) {
            continue;  // not even a hello for this rank
        }
        INFO("bit " << bit);
        CHECK_FALSE(pass(b, a));
    }
}

TEST_CASE(
    "another protocol is recognised by its first bytes, a connection for another rank by its "
    "number") {
    const std::string request = "GET / HTTP/1.1\r\n\r\n";
    auto b = listener();
    CHECK_FALSE(b.feed(std::as_bytes(std::span(request)).first(1)));

    auto lost = caller(1, 2);
    auto zero = listener();
    const auto refused = pass(lost, zero);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message == "a connection for rank 2 came to rank 0");
}

TEST_CASE("what a peer calls its host cannot harm a terminal") {
    auto a = Handshake::connecting(key_of(1),
                                   {.rank = 1,
                                    .pid = 1,
                                    .host = "a\x1b[2J\n\xff"
                                            "b"},
                                   0, Purpose::control, nonce_of(1));
    auto b = listener();

    REQUIRE(pass(a, b));

    CHECK(b.peer().host == "a?[2J??b");
}

}  // namespace hvd::coll::net
