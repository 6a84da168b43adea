// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/session.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using hvd::Errc;
using hvd::Error;
using hvd::ok;
using hvd::Status;
using hvd::coll::store::Authenticator;
using hvd::coll::store::create_key_authenticator;
using hvd::coll::store::create_open_authenticator;
using hvd::coll::store::Session;

namespace {

std::vector<std::byte> bytes(std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// Carries what both say to and fro until both are silent; the first error of either.
Status talk(Session& member, Session& host) {
    Status outcome = ok();
    for (int round = 0; round < 4; ++round) {
        for (auto [from, to] : {std::pair{&member, &host}, std::pair{&host, &member}}) {
            const auto said = from->take_output();
            auto taken = said.empty() ? ok() : to->feed(said);
            if (!taken && outcome) {
                outcome = std::move(taken);
            }
        }
    }
    return outcome;
}

struct Pair {
    std::unique_ptr<Authenticator> client_authenticator;
    std::unique_ptr<Authenticator> server_authenticator;
    Session member;
    Session host;

    Pair(std::unique_ptr<Authenticator> comes,
         std::unique_ptr<Authenticator> keeps,
         std::string job = "job")
        : client_authenticator(std::move(comes)),
          server_authenticator(std::move(keeps)),
          member(Session::Side::client, *client_authenticator, std::move(job)),
          host(Session::Side::server, *server_authenticator, "job") {}
};

}  // namespace

TEST_CASE("two ends with one key talk") {
    Pair pair(create_key_authenticator(bytes("secret")), create_key_authenticator(bytes("secret")));

    REQUIRE(talk(pair.member, pair.host));
    CHECK(pair.member.is_ready());
    CHECK(pair.host.is_ready());
    pair.member.send(bytes("one"));
    pair.member.send(bytes("two"));
    pair.host.send(bytes("three"));
    const auto wire = pair.member.take_output();
    REQUIRE(pair.host.feed(wire));
    REQUIRE(pair.member.feed(pair.host.take_output()));

    CHECK(pair.host.next().value() == bytes("one"));
    CHECK(pair.host.next().value() == bytes("two"));
    CHECK(pair.host.next().value() == std::nullopt);
    CHECK(pair.member.next().value() == bytes("three"));
    // Nobody on the way reads it.
    const auto one = bytes("one");
    CHECK(std::search(wire.begin(), wire.end(), one.begin(), one.end()) == wire.end());
}

TEST_CASE("messages may come in any pieces") {
    Pair pair(create_open_authenticator(), create_open_authenticator());
    const auto hello = pair.member.take_output();
    for (const auto byte : hello) {
        REQUIRE(pair.host.feed(std::span(&byte, 1)));
    }

    REQUIRE(talk(pair.member, pair.host));
    CHECK(pair.member.is_ready());
}

TEST_CASE("another key is noticed by who comes, and nothing is sent to the impostor") {
    Pair pair(create_key_authenticator(bytes("secret")),
              create_key_authenticator(bytes("guessed")));

    const auto outcome = talk(pair.member, pair.host);

    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == Errc::invalid_argument);
    CHECK(outcome.error().message == "it does not know the job's key");
    CHECK_FALSE(pair.member.is_ready());
    CHECK_FALSE(pair.host.is_ready());
}

TEST_CASE("a proof is good for one connection only") {
    Pair first(create_key_authenticator(bytes("secret")),
               create_key_authenticator(bytes("secret")));
    auto hello = first.member.take_output();
    REQUIRE(first.host.feed(hello));
    REQUIRE(first.member.feed(first.host.take_output()));
    const auto proof = first.member.take_output();
    Pair second(create_open_authenticator(), create_key_authenticator(bytes("secret")));

    REQUIRE(second.host.feed(hello));
    const auto replayed = second.host.feed(proof);

    REQUIRE_FALSE(replayed);
    CHECK(replayed.error().message == "it does not know the job's key");
}

TEST_CASE("a message that was changed on its way is refused") {
    Pair pair(create_open_authenticator(), create_open_authenticator());
    REQUIRE(talk(pair.member, pair.host));
    pair.member.send(bytes("one"));
    auto wire = pair.member.take_output();
    wire.back() ^= std::byte{1};

    REQUIRE(pair.host.feed(wire));

    CHECK_FALSE(pair.host.next());
}

TEST_CASE("jobs and kinds of proof are told apart") {
    Pair other_job(create_open_authenticator(), create_open_authenticator(), "other\n");
    Pair other_kind(create_key_authenticator(bytes("secret")), create_open_authenticator());

    const auto hello = other_job.member.take_output();
    const auto refused = other_job.host.feed(hello);
    const auto told = other_job.member.feed(other_job.host.take_output());
    (void)other_kind.host.feed(other_kind.member.take_output());
    const auto kind = other_kind.member.feed(other_kind.host.take_output());

    REQUIRE_FALSE(refused);
    REQUIRE_FALSE(told);
    CHECK(told.error() == Error{Errc::unavailable, "it says: this is job job, not other?"});
    REQUIRE_FALSE(kind);
    CHECK(kind.error().code == Errc::invalid_argument);
    CHECK(contains(kind.error().message, "authenticates itself by nothing, the other by a key"));
}

TEST_CASE("a client of another protocol gets a message and costs little") {
    Pair pair(create_open_authenticator(), create_open_authenticator());

    CHECK_FALSE(pair.host.feed(bytes("GET / HTTP/1.1\r\n\r\n")));
    CHECK_FALSE(pair.host.take_output().empty());
    CHECK(pair.host.feed(bytes("more")).error().code == Errc::aborted);
}
