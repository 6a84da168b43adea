// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/agent/agent_client.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>

#include <sys/wait.h>

namespace hvd::test {
namespace {

TEST_CASE("a slow launcher stops a rank at the window, and loses nothing") {
    constexpr std::size_t kBytes = 20'000'000;
    AgentClient client;
    client.gives_credit = false;
    std::uint64_t received = 0;
    std::uint64_t granted = wire::kOutputWindow;
    bool is_over_window = false;
    client.on_message = [&](const wire::FromAgent& message) {
        if (const auto* output = std::get_if<wire::Output>(&message)) {
            received += output->bytes.size();
            is_over_window = is_over_window || received > granted;
            if (received == granted) {
                granted += 1'000'000;
                client.send(wire::Credit{.bytes = 1'000'000});
            }
        }
    };

    client.start(AgentClient::plan({{"head", "-c", std::to_string(kBytes), "/dev/zero"}}));
    client.read_until_all_gone();

    CHECK_FALSE(is_over_window);
    CHECK(client.ranks[0].out == std::string(kBytes, '\0'));
    CHECK(client.ranks[0].exited->wait_status == 0);
}

TEST_CASE("an exit is told while the launcher takes no output") {
    AgentClient client;
    client.gives_credit = false;

    client.start(
        AgentClient::plan({{"head", "-c", "10000000", "/dev/zero"}, shell("sleep 0.2; exit 4")}));
    client.read_until([&] {
        return client.ranks[1].exited && client.ranks[0].out.size() >= wire::kOutputWindow;
    });

    CHECK(client.ranks[0].out.size() == wire::kOutputWindow);
    CHECK(WEXITSTATUS(client.ranks[1].exited->wait_status) == 4);
}

TEST_CASE("the last output of a rank has room of its own beyond the window") {
    AgentClient client;
    client.gives_credit = false;
    client.start(AgentClient::plan(
        {{"head", "-c", "10000000", "/dev/zero"}, shell("sleep 0.3; echo last words; exit 4")}));

    client.read_until([&] { return client.ranks[1].exited.has_value(); });

    CHECK(client.ranks[0].out.size() == wire::kOutputWindow);
    CHECK(client.ranks[1].out == "last words\n");
}

TEST_CASE("what found neither credit nor room comes after the exit and before the end") {
    constexpr std::size_t kMost = wire::kOutputWindow + wire::kLastOutputRoom;
    constexpr std::size_t kBytes = kMost + 30'000;  // the rest fits into the pipe
    AgentClient client;
    client.gives_credit = false;
    client.start(AgentClient::plan({{"head", "-c", std::to_string(kBytes), "/dev/zero"}}));
    client.read_until([&] { return client.ranks[0].exited.has_value(); });
    const auto before = client.ranks[0].out.size();

    client.send(wire::Credit{.bytes = 1'000'000});
    client.read_until_all_gone();

    CHECK(before == kMost);
    CHECK(client.ranks[0].out.size() == kBytes);
}

}  // namespace
}  // namespace hvd::test
