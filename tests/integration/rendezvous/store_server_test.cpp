// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads join a real store server on the loopback interface.
#include "collectives/rendezvous/tcp/store_server.hpp"

#include "collectives/base/unique_fd.hpp"
#include "collectives/rendezvous/tcp/store_client.hpp"
#include "tests/integration/rendezvous/munge_daemon.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using hvd::coll::store::Authentication;
using hvd::coll::store::create_munge_authenticator;
using hvd::coll::store::Credentials;
using hvd::coll::store::Member;
using hvd::coll::store::open_server_socket;
using hvd::coll::store::ServerAddress;
using hvd::coll::store::StoreClient;
using hvd::coll::store::StoreServer;
using namespace std::chrono_literals;
using hvd::Deadline;
using hvd::Errc;
using hvd::Result;
using hvd::coll::net::IpAddress;
using hvd::coll::net::parse_ip;

namespace {

std::vector<std::byte> bytes(std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

IpAddress loopback() {
    return parse_ip("127.0.0.1").value();
}

Credentials with_key(std::string_view key) {
    return {.kind = Authentication::key, .secret = bytes(key)};
}

struct Kept {
    std::unique_ptr<StoreServer> point;
    ServerAddress address;
};

Kept keep(int size, const Credentials& credentials, const std::string& job = "job") {
    const std::uint16_t any = 0;
    auto socket = open_server_socket(loopback(), std::span(&any, 1));
    REQUIRE(socket);
    Kept kept{.point = nullptr,
              .address = {.ips = {loopback()}, .ports = {socket->port}, .name = "here"}};
    auto point = StoreServer::open(std::move(*socket), size, job, credentials);
    REQUIRE(point);
    kept.point = std::move(*point);
    return kept;
}

Member member(int rank, int size) {
    return {.rank = rank,
            .size = size,
            .local_rank = 0,
            .local_size = 1,
            .pid = static_cast<int>(::getpid()),
            .host = "host",
            .node = std::to_string(rank)};
}

Result<std::unique_ptr<StoreClient>> join_store(const ServerAddress& where,
                                                int rank,
                                                int size,
                                                const Credentials& credentials,
                                                std::chrono::milliseconds limit = 10s) {
    return StoreClient::connect(where, "job", credentials, member(rank, size), Deadline::in(limit));
}

/// Every rank leaves a value and reads everybody else's. Returns the complaints.
std::vector<std::string> exchange(int size, const Credentials& credentials) {
    auto kept = keep(size, credentials);
    std::vector<std::string> complaints(static_cast<std::size_t>(size));
    {
        std::vector<std::jthread> ranks;
        ranks.reserve(static_cast<std::size_t>(size));
        for (int rank = 0; rank < size; ++rank) {
            ranks.emplace_back([&, rank] {
                auto& complaint = complaints[static_cast<std::size_t>(rank)];
                auto me = join_store(kept.address, rank, size, credentials);
                if (!me) {
                    complaint = me.error().message;
                    return;
                }
                const auto membership = (*me)->membership(Deadline::in(10s));
                if (!membership || membership->size() != static_cast<std::size_t>(size)) {
                    complaint = membership ? "short membership" : membership.error().message;
                    return;
                }
                const auto put = (*me)->put("of " + std::to_string(rank), bytes("value"));
                for (int other = 0; put && other < size; ++other) {
                    const auto got = (*me)->get("of " + std::to_string(other), Deadline::in(10s));
                    if (!got || *got != bytes("value")) {
                        complaint = "no value of " + std::to_string(other);
                    }
                }
            });
        }
    }
    std::erase(complaints, "");
    return complaints;
}

/// The point of a world of one. It listens after a while; its port is taken from the beginning.
class LatePoint {
public:
    LatePoint() {
        hvd::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const raw = reinterpret_cast<sockaddr*>(&address);
        socklen_t length = sizeof address;
        REQUIRE(::bind(socket.get(), raw, length) == 0);
        REQUIRE(::getsockname(socket.get(), raw, &length) == 0);
        port_ = ntohs(address.sin_port);
        opens_ = std::jthread([this, socket = std::move(socket)]() mutable {
            std::this_thread::sleep_for(100ms);
            if (::listen(socket.get(), SOMAXCONN) == 0) {
                auto opened =
                    StoreServer::open({.socket = std::move(socket), .port = port_}, 1, "job", {});
                point_ = opened ? std::move(*opened) : nullptr;
            }
        });
    }

    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    std::uint16_t port_ = 0;
    std::unique_ptr<StoreServer> point_;
    std::jthread opens_;
};

}  // namespace

TEST_CASE("ranks meet and exchange values, with a key and without") {
    CHECK(exchange(1, with_key("secret")).empty());
    CHECK(exchange(5, with_key("secret")).empty());
    CHECK(exchange(3, {}).empty());
}

TEST_CASE("ranks of one user prove it by munge") {
    const hvd::test::MungeDaemon munged;
    const Credentials munge{
        .kind = Authentication::munge, .secret = {}, .munge_socket = munged.socket()};

    CHECK(exchange(3, munge).empty());
}

TEST_CASE("a credential of munge is for one connection and one user") {
    const hvd::test::MungeDaemon munged;
    auto authenticator = create_munge_authenticator(munged.socket());
    REQUIRE(authenticator);
    const auto proof = (*authenticator)->prove(bytes("this"));
    REQUIRE(proof);

    const auto other = (*authenticator)->check(bytes("that"), *proof);
    const auto again = (*authenticator)->check(bytes("this"), *proof);
    const auto forged = (*authenticator)->check(bytes("this"), bytes("MUNGE:AAAA:"));

    CHECK(other.error().message == "its credential is for another connection");
    CHECK(contains(again.error().message, "munge: "));  // replayed
    CHECK_FALSE(forged);
}

TEST_CASE("without a munge daemon there is no proof by munge") {
    const auto authenticator = create_munge_authenticator("/nowhere/munge.socket");

    REQUIRE_FALSE(authenticator);
    CHECK(contains(authenticator.error().message, "munge: "));
}

TEST_CASE("who does not know the key is turned away at once") {
    const auto kept = keep(2, with_key("secret"));

    const auto wrong = join_store(kept.address, 1, 2, with_key("guessed"));
    const auto none = join_store(kept.address, 1, 2, {});

    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == Errc::invalid_argument);
    CHECK(contains(wrong.error().message, "it does not know the job's key"));
    REQUIRE_FALSE(none);
    CHECK(contains(none.error().message, "HOROVOD_JOB_KEY_FILE"));
}

TEST_CASE("the ranks that have not come are named at the deadline") {
    const auto kept = keep(5, {});
    const auto first = join_store(kept.address, 0, 5, {});
    const auto third = join_store(kept.address, 2, 5, {});
    REQUIRE(first);
    REQUIRE(third);

    const auto membership = (*third)->membership(Deadline::in(50ms));

    REQUIRE_FALSE(membership);
    CHECK(membership.error().code == Errc::timed_out);
    CHECK(contains(membership.error().message, "these ranks have not come: 1,3-4"));
}

TEST_CASE("a rank that is there already, and one of a world of another size, are refused") {
    const auto kept = keep(3, {});
    const auto first = join_store(kept.address, 0, 3, {});
    const auto again = join_store(kept.address, 0, 3, {});
    const auto other = join_store(kept.address, 1, 4, {});
    REQUIRE(again);
    REQUIRE(other);

    CHECK(contains((*again)->membership(Deadline::in(5s)).error().message,
                   "both claim to be this rank"));
    CHECK(contains((*other)->membership(Deadline::in(5s)).error().message, "there are 4 ranks"));
}

TEST_CASE("of several ports the one of the own job is found, also when it opens late") {
    const auto other = keep(2, {}, "another job");
    const LatePoint point;
    const ServerAddress where{
        .ips = {loopback()}, .ports = {other.address.ports[0], point.port()}, .name = "here"};

    const auto me = join_store(where, 0, 1, {});

    REQUIRE(me);
    const auto membership = (*me)->membership(Deadline::in(5s));
    INFO((membership ? "" : membership.error().message));
    CHECK(membership);
}

TEST_CASE("a server of another protocol at an earlier port is passed over") {
    const std::uint16_t any = 0;
    const auto other = open_server_socket(loopback(), std::span(&any, 1));
    REQUIRE(other);
    const std::jthread talks([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            pollfd called{.fd = other->socket.get(), .events = POLLIN, .revents = 0};
            (void)::poll(&called, 1, 20);
            const hvd::UniqueFd member(::accept(other->socket.get(), nullptr, nullptr));
            constexpr std::string_view kWords = "HTTP/1.1 400 Bad Request\r\n\r\n";
            (void)::send(member.get(), kWords.data(), kWords.size(), MSG_NOSIGNAL);
        }
    });
    const LatePoint point;
    const ServerAddress where{
        .ips = {loopback()}, .ports = {other->port, point.port()}, .name = "here"};

    const auto me = join_store(where, 0, 1, {});

    REQUIRE(me);
    CHECK((*me)->membership(Deadline::in(5s)));
}

TEST_CASE("a point that nobody opens is named with the reason") {
    const ServerAddress nowhere{.ips = {loopback()}, .ports = {1}, .name = "node7"};

    const auto me = join_store(nowhere, 1, 2, {}, 100ms);

    REQUIRE_FALSE(me);
    CHECK(me.error().code == Errc::timed_out);
    CHECK(contains(me.error().message, "rank 1 on host host found no store server"));
    CHECK(contains(me.error().message, "node7"));
    CHECK(contains(me.error().message, "Connection refused"));
}

TEST_CASE("a point that lets one in and then says nothing is given up in time, by its address") {
    const std::uint16_t any = 0;
    const auto silent = open_server_socket(loopback(), std::span(&any, 1));  // the kernel accepts
    REQUIRE(silent);
    const ServerAddress where{.ips = {loopback()}, .ports = {silent->port}, .name = "node7"};
    const auto start = Deadline::Clock::now();

    const auto me = join_store(where, 1, 2, {}, 500ms);

    REQUIRE_FALSE(me);
    CHECK(me.error().code == Errc::timed_out);
    CAPTURE(me.error().message);
    CHECK(contains(me.error().message, "rank 1 on host host found no store server"));
    CHECK(contains(me.error().message, "node7"));
    CHECK(contains(me.error().message, std::to_string(silent->port)));
    CHECK(Deadline::Clock::now() - start < 10s);
}

TEST_CASE("a point that closes early is noticed") {
    auto kept = keep(2, {});
    const auto me = join_store(kept.address, 1, 2, {});
    REQUIRE(me);

    REQUIRE((*me)->put("seen", bytes("")));  // so that the point knows who this is
    kept.point.reset();

    const auto membership = (*me)->membership(Deadline::in(5s));

    CHECK(membership.error().code == Errc::timed_out);
    CHECK(contains(membership.error().message, "these ranks have not come: 0;"));
}

TEST_CASE("a point that closes just as the own time is over has said who is missing") {
    auto kept = keep(2, {});
    const auto me = join_store(kept.address, 1, 2, {});
    REQUIRE(me);
    REQUIRE((*me)->put("seen", bytes("")));
    kept.point.reset();

    const auto membership = (*me)->membership(Deadline::in(0s));

    CHECK(membership.error().code == Errc::timed_out);
    CHECK(contains(membership.error().message, "these ranks have not come: 0;"));
}

TEST_CASE("100 connections that send nothing or garbage keep no rank away") {
    const auto kept = keep(2, {});
    const auto address = hvd::coll::net::to_socket_address(loopback(), kept.address.ports[0]);
    std::vector<hvd::UniqueFd> connections;
    connections.reserve(100);
    for (int each = 0; each < 100; ++each) {
        connections.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::connect(connections.back().get(), address.get(), address.size) == 0);
        if (each % 2 == 0) {
            (void)::send(connections.back().get(), "nonsense", 8, MSG_NOSIGNAL);
        }
    }

    const auto first = join_store(kept.address, 0, 2, {});
    const auto second = join_store(kept.address, 1, 2, {});

    REQUIRE(first);
    REQUIRE(second);
    CHECK((*first)->membership(Deadline::in(5s)));
    CHECK((*second)->membership(Deadline::in(5s)));
}
