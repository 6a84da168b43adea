// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/build_id.hpp"
#include "tests/integration/agent/agent_client.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("an agent introduces itself and leaves when nothing is started") {
    AgentClient client;

    client.close();

    CHECK(client.wait() == 0);
    CHECK(client.hello().build_id == wire::build_id());
    CHECK(client.hello().version == wire::kProtocolVersion);
    CHECK(client.facts().hostname.size() > 1);
    CHECK(client.facts().machine.size() > 1);
    CHECK_FALSE(client.facts().cpus.empty());
    CHECK(client.facts().memory_bytes > (1U << 20));
    CHECK(client.facts().free_port >= 1024);
}

TEST_CASE("ranks run as planned: every byte, every exit, in order") {
    AgentClient client;
    std::vector<std::string> order;
    client.on_message = [&](const wire::FromAgent& message) {
        if (const auto* started = std::get_if<wire::Started>(&message)) {
            order.push_back("started " + std::to_string(started->rank));
        } else if (const auto* exited = std::get_if<wire::Exited>(&message)) {
            order.push_back("exited " + std::to_string(exited->rank));
        } else if (const auto* output = std::get_if<wire::Output>(&message)) {
            order.push_back("output " + std::to_string(output->rank));
        }
    };

    client.start(AgentClient::plan({shell(R"(printf 'a\0b\r\377\nno newline'; printf err >&2)"),
                                    shell("exit 3"), shell("kill -SEGV $$")}));
    client.read_until_all_gone();

    using std::string_literals::operator""s;
    CHECK(client.ranks[0].out == "a\0b\r\xff\nno newline"s);
    CHECK(client.ranks[0].err == "err");
    REQUIRE(std::ranges::all_of(client.ranks,
                                [](const auto& rank) { return rank.exited.has_value(); }));
    CHECK(client.ranks[0].exited->wait_status == 0);
    CHECK(WEXITSTATUS(client.ranks[1].exited->wait_status) == 3);
    CHECK(WTERMSIG(client.ranks[2].exited->wait_status) == SIGSEGV);
    for (const auto& rank : client.ranks) {
        CHECK_FALSE(rank.exited->is_killed_by_launcher);
        CHECK(rank.exited->oom.empty());
        CHECK(rank.exited->max_rss_bytes > 1000);
        CHECK(rank.started->pid > 1);
    }
    const auto place = [&](const char* what) { return std::ranges::find(order, what); };
    CHECK(place("started 0") < place("output 0"));
    CHECK(place("output 0") < place("exited 0"));
    CHECK(client.all_gone->survivors.empty());
    CHECK(client.wait() == 0);
}

TEST_CASE("signals reach the rank: those of a terminal its children too, others it alone") {
    AgentClient client;
    const auto script = shell(
        "trap 'echo usr1' USR1; trap 'wait; echo hup; exit 5' HUP;"
        "sh -c 'trap \"echo child-usr1\" USR1; trap \"echo child-hup; exit 0\" HUP; echo ready;"
        "while :; do sleep 0.01; done' & while :; do wait; done");
    client.start(AgentClient::plan({script}));
    client.read_until([&] { return client.has_written(0, "ready"); });

    client.send(wire::Signal{.number = SIGUSR1});
    client.read_until([&] { return client.has_written(0, "usr1"); });
    client.send(wire::Signal{.number = SIGHUP});
    client.read_until_all_gone();

    CHECK(client.ranks[0].out.find("child-usr1") == std::string::npos);
    CHECK(client.has_written(0, "child-hup"));
    CHECK(WEXITSTATUS(client.ranks[0].exited->wait_status) == 5);
    CHECK_FALSE(client.ranks[0].exited->is_killed_by_launcher);
}

TEST_CASE("the agent tells what its ranks do, or the children for which they wait") {
    AgentClient client;
    std::vector<wire::RankActivity> activities;
    client.on_message = [&](const wire::FromAgent& message) {
        if (const auto* activity = std::get_if<wire::RankActivity>(&message)) {
            activities.push_back(*activity);
        }
    };
    client.start(
        AgentClient::plan({shell("echo ready; exec sleep 60"), shell("echo ready; kill -STOP $$"),
                           shell("(while :; do :; done) & echo ready; wait")}));
    client.read_until([&] {
        return client.has_written(0, "ready") && client.has_written(1, "ready") &&
               client.has_written(2, "ready");
    });

    std::string states;
    const auto deadline = Deadline::in(AgentClient::kLimit);
    while (states != "STR" && !deadline.has_passed()) {  // they get there after their line
        activities.clear();
        client.send(wire::Inspect{.ranks = {0, 1, 2, 7}});
        client.read_until([&] { return activities.size() == 3; });
        states = activities[0].state + activities[1].state + activities[2].state;
    }

    CHECK(states == "STR");
    CHECK(activities[1].rank == 1);
    client.send(wire::Stop{.grace_ms = 0});
    client.read_until_all_gone();
}

TEST_CASE("a stop asks kindly, then kills") {
    AgentClient client;
    client.start(
        AgentClient::plan({shell("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"),
                           shell("trap '' TERM; echo ready; while :; do sleep 0.01; done"),
                           shell("echo ready; exec sleep 60")}));
    client.read_until([&] {
        return client.has_written(0, "ready") && client.has_written(1, "ready") &&
               client.has_written(2, "ready");
    });
    const auto begin = std::chrono::steady_clock::now();

    client.send(wire::Stop{.grace_ms = 300});
    client.read_until_all_gone();

    const auto lasted = std::chrono::steady_clock::now() - begin;
    CHECK(client.ranks[0].exited->wait_status == 0);
    CHECK(WTERMSIG(client.ranks[1].exited->wait_status) == SIGKILL);
    CHECK(WTERMSIG(client.ranks[2].exited->wait_status) == SIGTERM);
    CHECK(std::ranges::all_of(client.ranks,
                              [](const auto& rank) { return rank.exited->is_killed_by_launcher; }));
    CHECK(lasted >= 300ms);
    CHECK(lasted < 2s);
    CHECK(client.wait() == 0);
}

TEST_CASE("a stopped rank hears a stop, and a second stop can bring the kill forward") {
    AgentClient client;
    client.start(AgentClient::plan(
        {shell("trap 'exit 7' TERM; echo ready; kill -STOP $$; while :; do sleep 0.01; done"),
         shell("trap '' TERM; echo ready; while :; do sleep 0.01; done")}));
    client.read_until(
        [&] { return client.has_written(0, "ready") && client.has_written(1, "ready"); });

    client.send(wire::Stop{.grace_ms = 60'000});
    client.read_until([&] { return client.ranks[0].exited.has_value(); });
    client.send(wire::Stop{.grace_ms = 0});
    client.read_until_all_gone();

    CHECK(WEXITSTATUS(client.ranks[0].exited->wait_status) == 7);
    CHECK(WTERMSIG(client.ranks[1].exited->wait_status) == SIGKILL);
}

TEST_CASE("what a rank leaves behind is forwarded, then ended with the job") {
    AgentClient client;
    const auto begin = std::chrono::steady_clock::now();

    client.start(AgentClient::plan(
        {shell("(sleep 0.2; echo late) & exit 0"),
         shell(
             "sleep 0.5; (trap '' TERM; echo stubborn; while :; do sleep 0.01; done) & exit 0")}));
    client.read_until_all_gone();

    CHECK(client.has_written(0, "late"));
    CHECK(client.ranks[0].exited->wait_status == 0);
    CHECK(client.all_gone->survivors.empty());
    CHECK(std::chrono::steady_clock::now() - begin < 4s);
}

TEST_CASE("garbage instead of frames ends the agent") {
    AgentClient client;

    client.send_raw("GET / HTTP/1.1\r\n\r\n");

    CHECK(client.wait() == 0);
}

std::vector<std::string> rank_that_takes_term() {
    return shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done");
}

TEST_CASE(
    "TERM to guard or agent ends the job in order, and is told before that with who sent it") {
    AgentClient client;
    bool is_late = false;
    client.on_message = [&](const wire::FromAgent& message) {
        is_late = is_late || (std::holds_alternative<wire::Leaving>(message) &&
                              client.ranks[0].exited.has_value());
    };
    client.start(AgentClient::plan({rank_that_takes_term()}));
    client.read_until([&] { return client.has_written(0, "ready"); });

    const pid_t told = GENERATE(true, false) ? client.guard() : client.hello().pid;
    (void)::kill(told, SIGTERM);
    (void)::kill(told, SIGTERM);
    client.read_until_all_gone();

    CHECK(WEXITSTATUS(client.ranks[0].exited->wait_status) == 9);
    const auto why = "the agent got SIGTERM from process " + std::to_string(::getpid());
    CHECK(client.notes == std::vector{why + ": ending the job"});
    REQUIRE(client.leavings.size() == 1);
    CHECK(client.leavings[0].why == why);
    CHECK(client.leavings[0].signal == SIGTERM);
    CHECK(client.leavings[0].time_ns <= client.ranks[0].exited->time_ns);
    CHECK_FALSE(is_late);
}

TEST_CASE("a TERM to the agent is nothing new where the launcher has asked for the end") {
    AgentClient client;
    client.start(
        AgentClient::plan({shell("trap 'echo asked' TERM; echo ready; "
                                 "while :; do sleep 0.01; done")}));
    client.read_until([&] { return client.has_written(0, "ready"); });

    client.send(wire::Stop{.grace_ms = 300});
    client.read_until([&] { return client.has_written(0, "asked"); });
    (void)::kill(client.hello().pid, SIGTERM);
    client.read_until_all_gone();

    CHECK(client.leavings.empty());
    CHECK(client.notes.size() == 1);
}

}  // namespace
}  // namespace hvd::test
