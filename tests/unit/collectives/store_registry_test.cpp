// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/registry.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::coll::store::Absent;
using hvd::coll::store::decode_membership;
using hvd::coll::store::decode_reply;
using hvd::coll::store::decode_request;
using hvd::coll::store::encode;
using hvd::coll::store::encode_membership;
using hvd::coll::store::Failed;
using hvd::coll::store::Get;
using hvd::coll::store::kMembershipKey;
using hvd::coll::store::Member;
using hvd::coll::store::Put;
using hvd::coll::store::Registry;
using hvd::coll::store::Reply;
using hvd::coll::store::Request;
using hvd::coll::store::Value;

namespace {

Member member(int rank, int size = 3) {
    return {.rank = rank,
            .size = size,
            .local_rank = 0,
            .local_size = 1,
            .pid = 100 + rank,
            .host = "node" + std::to_string(rank),
            .node = std::to_string(rank)};
}

std::vector<std::byte> bytes(std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

std::string refusal(const std::vector<Registry::AddressedReply>& replies) {
    REQUIRE(replies.size() == 1);
    const auto* failed = std::get_if<Failed>(&replies[0].reply);
    REQUIRE(failed != nullptr);
    return failed->why;
}

}  // namespace

TEST_CASE("the membership is called once all ranks have come") {
    Registry registry(3);

    CHECK(registry.on(7, member(2)).empty());
    CHECK(registry.on(7, Get{.request = 1, .key = std::string(kMembershipKey)}).empty());
    CHECK(registry.absent() == "0-1");
    CHECK(registry.on(8, member(0)).empty());
    const auto replies = registry.on(9, member(1));

    CHECK(registry.is_complete());
    CHECK(registry.absent().empty());
    const std::vector<Member> all{member(0), member(1), member(2)};
    CHECK(replies == std::vector<Registry::AddressedReply>{
                         {7, Value{.request = 1, .bytes = encode_membership(all)}}});
    CHECK(decode_membership(encode_membership(all)).value() == all);
}

TEST_CASE("what is put is for everybody, also for who has asked before") {
    Registry registry(3);
    (void)registry.on(1, member(0));
    (void)registry.on(2, member(1));

    CHECK(registry.on(2, Get{.request = 5, .key = "a"}).empty());
    CHECK(registry.on(1, Put{.request = 1, .key = "a", .value = bytes("x")}) ==
          std::vector<Registry::AddressedReply>{{2, Value{.request = 5, .bytes = bytes("x")}},
                                                {1, Value{.request = 1}}});
    CHECK(registry.on(1, Get{.request = 2, .key = "a"}) ==
          std::vector<Registry::AddressedReply>{{1, Value{.request = 2, .bytes = bytes("x")}}});
    CHECK(registry.on(2, Put{.request = 6, .key = "a", .value = bytes("x")}).size() == 1);
    CHECK(refusal(registry.on(2, Put{.request = 7, .key = "a", .value = bytes("y")})) ==
          "\"a\" already has another value");
}

TEST_CASE("who has left gets no replies") {
    Registry registry(2);
    (void)registry.on(1, member(0, 2));
    (void)registry.on(2, member(1, 2));
    (void)registry.on(2, Get{.request = 5, .key = "a"});

    registry.on_leave(2);

    CHECK_FALSE(registry.has_joined(2));
    CHECK(registry.on(1, Put{.request = 1, .key = "a"}).size() == 1);
}

TEST_CASE("a rank that does not belong to the world is told why") {
    Registry registry(3);
    (void)registry.on(1, member(1));

    CHECK(refusal(registry.on(2, member(1))) ==
          "rank 1 (pid 101 on host node1) and rank 1 (pid 101 on host node1) both claim to be this "
          "rank; HOROVOD_LAUNCHER names the launcher that counts");
    CHECK(refusal(registry.on(2, member(2, 4))) ==
          "rank 2 (pid 102 on host node2) was told that there are 4 ranks, and the rank "
          "that serves the store 3");
    CHECK(refusal(registry.on(2, member(3))) == "there is no rank 3 of 3");
    CHECK(refusal(registry.on(2, member(-1))) == "there is no rank -1 of 3");
    CHECK(refusal(registry.on(2, Get{.request = 1, .key = "a"})) ==
          "the first request must introduce a rank");
}

TEST_CASE("the missing ranks can be asked for") {
    Registry registry(5);
    (void)registry.on(1, member(1, 5));

    CHECK(registry.on(1, Absent{.request = 9}) ==
          std::vector<Registry::AddressedReply>{{1, Value{.request = 9, .bytes = bytes("0,2-4")}}});
}

TEST_CASE("when the point closes early, those who came are told who did not") {
    Registry registry(3);
    (void)registry.on(1, member(1));

    const auto replies = registry.closing_replies();

    CHECK(contains(refusal(replies), "these ranks have not come: 0,2"));
    CHECK(std::get<Failed>(replies[0].reply).code == hvd::Errc::timed_out);
}

TEST_CASE("messages survive encoding, and cut ones are refused") {
    const std::vector<Request> requests{member(2), Put{1, "key", bytes("value")}, Get{2, "key"},
                                        Absent{3}};
    const std::vector<Reply> replies{Value{1, bytes("x")}, Value{2, {}}, Failed{3, "why"},
                                     Failed{4, "late", hvd::Errc::timed_out}};

    for (const auto& request : requests) {
        const auto wire = encode(request);
        CHECK(decode_request(wire).value() == request);
        CHECK_FALSE(decode_request(std::span(wire).first(2)));
    }
    for (const auto& reply : replies) {
        const auto wire = encode(reply);
        CHECK(decode_reply(wire).value() == reply);
        CHECK_FALSE(decode_reply(std::span(wire).first(3)));
    }
    CHECK_FALSE(decode_request(bytes("\x09")));
    CHECK_FALSE(decode_reply(bytes("\x09zzzz")));
}
