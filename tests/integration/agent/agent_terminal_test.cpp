// SPDX-License-Identifier: Apache-2.0
//
// A rank with a terminal, as its launcher sees it.
#include "tests/integration/agent/agent_client.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <span>
#include <string_view>

#include <sys/wait.h>

namespace hvd::test {
namespace {

wire::Input typed(std::string_view keys) {
    const auto bytes = std::as_bytes(std::span(keys));
    return {.bytes = {bytes.begin(), bytes.end()}};
}

launch::HostPlan plan_with_terminal(const std::vector<std::vector<std::string>>& commands) {
    auto plan = AgentClient::plan(commands);
    plan.stdin_rank = 0;
    plan.has_terminal = true;
    return plan;
}

void start(AgentClient& client,
           const launch::HostPlan& plan,
           std::uint64_t output_window = wire::kOutputWindow) {
    client.ranks.resize(plan.ranks.size());
    client.send_raw(wire::kMagic);
    client.send(wire::WindowSize{.rows = 7, .columns = 99});
    client.send(wire::Start{.job = {.id = job_id(), .env = {}, .ranks_env = {}},
                            .plan = plan,
                            .output_window = output_window});
}

TEST_CASE("a rank with a terminal has the size that was told, and hears of another") {
    AgentClient client;
    start(client, plan_with_terminal({shell("trap 'stty size; exit 0' WINCH; stty size; "
                                            "while :; do sleep 0.01; done")}));
    client.read_until([&] { return client.has_written(0, "7 99\r\n"); });

    client.send(wire::WindowSize{.rows = 8, .columns = 100});
    client.read_until_all_gone();

    CHECK(client.ranks[0].out == "7 99\r\n8 100\r\n");
    CHECK(client.ranks[0].exited->wait_status == 0);
}

TEST_CASE("a key of a terminal interrupts the rank that has it and no other") {
    AgentClient client;
    const auto script = shell("trap 'exit 3' INT; echo ready; while :; do sleep 0.01; done");
    start(client, plan_with_terminal({script, script}));
    client.read_until(
        [&] { return client.has_written(0, "ready") && client.has_written(1, "ready"); });

    client.send(typed("\x03"));
    client.read_until([&] { return client.ranks[0].exited.has_value(); });
    client.send(wire::Signal{.number = SIGTERM});
    client.read_until_all_gone();

    CHECK(WEXITSTATUS(client.ranks[0].exited->wait_status) == 3);
    CHECK(WTERMSIG(client.ranks[1].exited->wait_status) == SIGTERM);
}

TEST_CASE("a rank that does not read its terminal delays neither signals nor its end") {
    AgentClient client;
    start(client,
          plan_with_terminal({shell(
              "stty raw -echo; trap 'exit 6' USR1; echo ready; while :; do sleep 0.01; done")}));
    client.read_until([&] { return client.has_written(0, "ready"); });

    client.send(wire::Input{.bytes = std::vector<std::byte>(wire::kInputWindow)});
    client.send(wire::Signal{.number = SIGUSR1});
    client.read_until_all_gone();

    CHECK(WEXITSTATUS(client.ranks[0].exited->wait_status) == 6);
}

TEST_CASE("a terminal gives back what its rank wrote last, also where credit comes later") {
    AgentClient client;
    client.gives_credit = false;
    start(client, plan_with_terminal({shell("seq 1 20000; echo end")}), 1);
    client.read_until([&] { return !client.ranks[0].out.empty(); });
    client.gives_credit = true;
    client.send(wire::Credit{.bytes = 65536});
    client.read_until_all_gone();

    CHECK(client.ranks[0].out.ends_with("20000\r\nend\r\n"));
    CHECK(client.ranks[0].err.empty());
}

TEST_CASE("a terminal ends with a rank that cannot be started in it") {
    AgentClient client;
    auto plan = plan_with_terminal({{"/bin/true"}, shell("sleep 0.2; echo other")});
    plan.ranks[0].cwd = "/no such folder";
    start(client, plan);
    client.read_until_all_gone();

    REQUIRE(client.ranks[0].failed);
    CHECK(client.ranks[0].failed->step == "chdir /no such folder");
    CHECK(client.ranks[1].out == "other\n");
}

}  // namespace
}  // namespace hvd::test
