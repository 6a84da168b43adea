// SPDX-License-Identifier: Apache-2.0
//
// The listening end of a measured link, against raw connections. Both ends at once, over hosts of
// their own, are in tests/e2e/hosts.
#include "launcher/agent/probe/link_listener.hpp"

#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/rank_record.hpp"
#include "launcher/agent/probe/link_protocol.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace net = hvd::coll::net;
using hvd::Deadline;
using hvd::UniqueFd;
using hvd::launch::agent::EventLoop;
using hvd::launch::agent::kProofBytes;
using hvd::launch::agent::LinkListener;

namespace {

constexpr auto kLimit = std::chrono::seconds(10);

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string secret() {
    return std::string(kProofBytes, 'a') + std::string(kProofBytes, 'b');
}

/// An open listener, and a client that speaks to it while its loop turns.
struct Scene {
    EventLoop loop;
    LinkListener listener{loop};
    net::ListenAddress endpoint;
    bool is_there = false;

    Scene() {
        const auto answer =
            listener.open({.id = 7, .secret = bytes_of(secret()), .interfaces = {}, .ports = {}});
        if (!answer.error.empty()) {
            hvd::test::skip("no address but loopback: " + answer.error);
            return;
        }
        is_there = true;
        const auto record = net::decode_rank_record(answer.record);
        REQUIRE(record);
        endpoint = record->endpoints.front();
    }

    UniqueFd connect() const {
        const auto at = net::to_socket_address(endpoint.at.ip, endpoint.port);
        UniqueFd socket(::socket(at.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const bool is_connected = ::connect(socket.get(), at.get(), at.size) == 0;
        return is_connected ? std::move(socket) : UniqueFd();
    }

    /// The reply, up to `size` bytes; "-" stands for the end of the connection.
    std::string talk(const UniqueFd& socket, std::string_view text, std::size_t size) {
        REQUIRE(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(text.size()));
        const auto deadline = Deadline::in(kLimit);
        std::string answer;
        while (answer.size() < size && !deadline.has_passed()) {
            loop.run_once(Deadline::in(std::chrono::milliseconds(5)));
            std::array<char, 256> buffer{};
            const auto got = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno == ECONNRESET)) {
                return answer + "-";
            }
            answer.append(buffer.data(), got < 0 ? 0 : static_cast<std::size_t>(got));
        }
        return answer;
    }
};

std::string header(std::uint64_t payload) {
    std::string text(sizeof payload, '\0');
    std::memcpy(text.data(), &payload, sizeof payload);
    return text;
}

}  // namespace

TEST_CASE("who does not know the secret is closed without an answer, and others are heard") {
    Scene scene;
    if (!scene.is_there) {
        return;
    }
    const auto unauthenticated = scene.connect();
    const auto peer = scene.connect();

    CHECK(scene.talk(unauthenticated, std::string(kProofBytes, 'x'), 1) == "-");
    CHECK(scene.talk(peer, secret().substr(0, kProofBytes), kProofBytes) ==
          secret().substr(kProofBytes));
}

TEST_CASE("nothing listens any more once the other end has proven itself") {
    Scene scene;
    if (!scene.is_there) {
        return;
    }
    const auto peer = scene.connect();

    CHECK(scene.talk(peer, secret().substr(0, kProofBytes), kProofBytes).size() == kProofBytes);

    CHECK_FALSE(scene.connect());
    CHECK(scene.listener.deadline());
}

TEST_CASE("a header is answered once its payload has come") {
    Scene scene;
    if (!scene.is_there) {
        return;
    }
    const auto peer = scene.connect();
    CHECK(scene.talk(peer, secret().substr(0, kProofBytes), kProofBytes).size() == kProofBytes);

    CHECK(scene.talk(peer, header(0), 8) == header(0));
    CHECK(scene.talk(peer, header(5) + "12345" + header(0), 16) == header(5) + header(0));
    CHECK(scene.talk(peer, header(std::uint64_t{1} << 40), 1) == "-");
}

TEST_CASE("it closes when told to, and when its time is over") {
    Scene scene;
    if (!scene.is_there) {
        return;
    }
    SECTION("told") {
        scene.listener.close(7);
    }
    SECTION("time") {
        scene.listener.time_passed(std::chrono::steady_clock::now() + std::chrono::minutes(1));
    }

    CHECK_FALSE(scene.connect());
    CHECK_FALSE(scene.listener.deadline());
}
