// SPDX-License-Identifier: Apache-2.0
#include "collectives/meeting/book.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::coll::meeting::Absent;
using hvd::coll::meeting::Book;
using hvd::coll::meeting::decode_reply;
using hvd::coll::meeting::decode_request;
using hvd::coll::meeting::decode_roll;
using hvd::coll::meeting::encode;
using hvd::coll::meeting::encode_roll;
using hvd::coll::meeting::Failed;
using hvd::coll::meeting::Get;
using hvd::coll::meeting::Guest;
using hvd::coll::meeting::kRollKey;
using hvd::coll::meeting::Put;
using hvd::coll::meeting::Reply;
using hvd::coll::meeting::Request;
using hvd::coll::meeting::Value;

namespace {

Guest guest(int rank, int size = 3) {
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

std::string refusal(const std::vector<Book::Letter>& letters) {
    REQUIRE(letters.size() == 1);
    const auto* failed = std::get_if<Failed>(&letters[0].reply);
    REQUIRE(failed != nullptr);
    return failed->why;
}

}  // namespace

TEST_CASE("the roll is called once all ranks have come") {
    Book book(3);

    CHECK(book.on(7, guest(2)).empty());
    CHECK(book.on(7, Get{.request = 1, .key = std::string(kRollKey)}).empty());
    CHECK(book.absent() == "0-1");
    CHECK(book.on(8, guest(0)).empty());
    const auto letters = book.on(9, guest(1));

    CHECK(book.is_complete());
    CHECK(book.absent().empty());
    const std::vector<Guest> all{guest(0), guest(1), guest(2)};
    CHECK(letters ==
          std::vector<Book::Letter>{{7, Value{.request = 1, .bytes = encode_roll(all)}}});
    CHECK(decode_roll(encode_roll(all)).value() == all);
}

TEST_CASE("what is put is for everybody, also for who has asked before") {
    Book book(3);
    (void)book.on(1, guest(0));
    (void)book.on(2, guest(1));

    CHECK(book.on(2, Get{.request = 5, .key = "a"}).empty());
    CHECK(book.on(1, Put{.request = 1, .key = "a", .value = bytes("x")}) ==
          std::vector<Book::Letter>{{2, Value{.request = 5, .bytes = bytes("x")}},
                                    {1, Value{.request = 1}}});
    CHECK(book.on(1, Get{.request = 2, .key = "a"}) ==
          std::vector<Book::Letter>{{1, Value{.request = 2, .bytes = bytes("x")}}});
    CHECK(book.on(2, Put{.request = 6, .key = "a", .value = bytes("x")}).size() == 1);
    CHECK(refusal(book.on(2, Put{.request = 7, .key = "a", .value = bytes("y")})) ==
          "\"a\" already has another value");
}

TEST_CASE("who has left gets no letters") {
    Book book(2);
    (void)book.on(1, guest(0, 2));
    (void)book.on(2, guest(1, 2));
    (void)book.on(2, Get{.request = 5, .key = "a"});

    book.on_leave(2);

    CHECK_FALSE(book.has_come(2));
    CHECK(book.on(1, Put{.request = 1, .key = "a"}).size() == 1);
}

TEST_CASE("who does not belong to the world is told why") {
    Book book(3);
    (void)book.on(1, guest(1));

    CHECK(refusal(book.on(2, guest(1))) ==
          "rank 1 (pid 101 on host node1) and rank 1 (pid 101 on host node1) are both told to be "
          "this rank; HOROVOD_LAUNCHER names the launcher that counts");
    CHECK(refusal(book.on(2, guest(2, 4))) ==
          "rank 2 (pid 102 on host node2) was told that there are 4 ranks, and who keeps the "
          "meeting point 3");
    CHECK(refusal(book.on(2, guest(3))) == "there is no rank 3 of 3");
    CHECK(refusal(book.on(2, guest(-1))) == "there is no rank -1 of 3");
    CHECK(refusal(book.on(2, Get{.request = 1, .key = "a"})) == "who is there?");
}

TEST_CASE("the missing ranks can be asked for") {
    Book book(5);
    (void)book.on(1, guest(1, 5));

    CHECK(book.on(1, Absent{.request = 9}) ==
          std::vector<Book::Letter>{{1, Value{.request = 9, .bytes = bytes("0,2-4")}}});
}

TEST_CASE("when the point closes early, those who came are told who did not") {
    Book book(3);
    (void)book.on(1, guest(1));

    const auto letters = book.farewell();

    CHECK(contains(refusal(letters), "these ranks have not come: 0,2"));
    CHECK(std::get<Failed>(letters[0].reply).code == hvd::Errc::timed_out);
}

TEST_CASE("messages survive encoding, and cut ones are refused") {
    const std::vector<Request> requests{guest(2), Put{1, "key", bytes("value")}, Get{2, "key"},
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
