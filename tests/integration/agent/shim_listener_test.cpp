// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/shim_listener.hpp"

#include "collectives/base/unix_socket.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

using namespace hvd;                 // NOLINT(google-build-using-namespace)
using namespace hvd::launch::agent;  // NOLINT(google-build-using-namespace)

TEST_CASE("a shim that does not read its reply delays nobody, and gets all of it") {
    const auto name = "hvd-shim-listener-test-" + std::to_string(::getpid());
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    bool has_replied = false;
    EventLoop loop;
    ShimListener listener(loop, {.on_claim =
                                     [&](auto, pid_t, const ShimClaim&) {
                                         ShimListener::Answer answer;
                                         // Far more than the buffers of a socket hold.
                                         answer.reply.env["LONG"] = std::string(3 << 20, 'x');
                                         has_replied = true;
                                         return answer;
                                     },
                                 .on_failure = [](auto, const ShimFailure&) {},
                                 .on_executed = [](auto) {}});
    REQUIRE(listener.listen(name));
    auto shim = connect_abstract(name, SOCK_STREAM, deadline);
    REQUIRE(shim);
    REQUIRE(send_all(shim->get(),
                     encode(ShimClaim{.build_id = "build", .job_id = "job", .rank = 2, .size = 4}),
                     deadline));

    const auto begin = std::chrono::steady_clock::now();
    while (!has_replied && !deadline.has_passed()) {
        loop.run_once(deadline);
    }
    const auto taken = std::chrono::steady_clock::now() - begin;

    CHECK(taken < std::chrono::milliseconds(250));
    ShimFrames frames;
    std::optional<std::vector<std::byte>> body;
    while (!body && !deadline.has_passed()) {
        loop.run_once(Deadline::in({}));
        auto packet = receive_packet(shim->get(), deadline);
        REQUIRE(packet);
        frames.feed(packet->bytes);
        auto next = frames.next();
        REQUIRE(next);
        body = std::move(*next);
    }
    REQUIRE(body);
    const auto reply = decode_reply(*body);
    REQUIRE(reply);
    CHECK(reply->env.at("LONG").size() == 3 << 20);
}
