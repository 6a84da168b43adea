// SPDX-License-Identifier: Apache-2.0
//
// The agent's socket, seen by ranks (this program again, as `integration_agent_rank MODE`) and by
// unauthenticated peers (this process, which is no descendant of a rank).
#include "collectives/base/unix_socket.hpp"
#include "collectives/rendezvous/agent_store.hpp"
#include "tests/integration/agent/agent_client.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <map>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

launch::HostPlan plan_with_contract(const std::vector<std::vector<std::string>>& commands) {
    auto plan = AgentClient::plan(commands);
    for (auto& rank : plan.ranks) {
        const coll::LaunchContract contract{
            .topology = {.rank = rank.rank,
                         .size = static_cast<int>(commands.size()),
                         .local_rank = rank.rank,
                         .local_size = static_cast<int>(commands.size())},
            .hostname = "here",
            .job_id = job_id(),
            .agent_socket = plan.agent_socket};
        rank.env = coll::encode(contract);
    }
    return plan;
}

/// Plays the launcher's key store.
class Keys {
public:
    explicit Keys(AgentClient& client) : client_(client) {}

    void operator()(const wire::FromAgent& message) {
        if (const auto* put = std::get_if<wire::Put>(&message)) {
            const bool is_refused = put->key == "refused";
            if (!is_refused) {
                values_[put->key] = put->value;
            }
            client_.send(wire::PutDone{.rank = put->rank,
                                       .request = put->request,
                                       .error = is_refused ? "it is there already" : ""});
        } else if (const auto* get = std::get_if<wire::Get>(&message)) {
            waiting_.push_back(*get);
        }
        std::erase_if(waiting_, [this](const wire::Get& get) {
            const auto value = values_.find(get.key);
            if (value == values_.end()) {
                return false;
            }
            client_.send(
                wire::GetValue{.rank = get.rank, .request = get.request, .value = value->second});
            return true;
        });
    }

private:
    AgentClient& client_;
    std::map<std::string, std::vector<std::byte>> values_;
    std::vector<wire::Get> waiting_;
};

/// The agent's reply to these bytes of a process that is no rank, up to the end of the connection.
std::string answer_to_other(const std::string& socket_name, std::span<const std::byte> bytes) {
    auto socket = connect_abstract(socket_name, SOCK_STREAM, Deadline::in(5s));
    REQUIRE(socket);
    REQUIRE(*socket);
    REQUIRE(send_all(socket->get(), bytes, Deadline::in(5s)));
    std::string answer;
    while (true) {
        pollfd ready{.fd = socket->get(), .events = POLLIN, .revents = 0};
        REQUIRE(::poll(&ready, 1, 5000) == 1);
        std::array<char, 4096> text{};
        const auto size = ::recv(socket->get(), text.data(), text.size(), 0);
        if (size <= 0) {
            return answer;
        }
        answer.append(text.data(), static_cast<std::size_t>(size));
    }
}

TEST_CASE("keys go through the launcher, from behind a wrapper too") {
    AgentClient client;
    client.on_message = Keys(client);

    client.start(plan_with_contract({{HVD_AGENT_RANK, "exchange"},
                                     shell(HVD_AGENT_RANK " exchange; exit $?"),
                                     {"env", "nice", HVD_AGENT_RANK, "exchange"}}));
    client.read_until_all_gone();

    for (const auto& rank : client.ranks) {
        CHECK(rank.err == "");
        CHECK(rank.out == "value of 0, value of 1, value of 2, refused: it is there already\n");
        CHECK(rank.exited->wait_status == 0);
    }
}

TEST_CASE("a process goes on counting worlds where an earlier one of its rank ended") {
    AgentClient client;
    client.on_message = Keys(client);

    client.start(plan_with_contract(
        {shell(HVD_AGENT_RANK " worlds; " HVD_AGENT_RANK " worlds"), {HVD_AGENT_RANK, "worlds"}}));
    client.read_until_all_gone();

    CHECK(client.ranks[0].err == "");
    CHECK(client.ranks[0].out == "world 0\nworld 1\nworld 2\nworld 3\n");
    CHECK(client.ranks[1].out == "world 0\nworld 1\n");
}

TEST_CASE("a report arrives before the end of its rank, whole") {
    AgentClient client;
    bool is_late = false;
    client.on_message = [&](const wire::FromAgent& message) {
        is_late = is_late || (std::holds_alternative<wire::RankReport>(message) &&
                              client.ranks[0].exited.has_value());
    };

    client.start(plan_with_contract({{HVD_AGENT_RANK, "report"}}));
    client.read_until_all_gone();

    REQUIRE(client.ranks[0].reports.size() == 1);
    CHECK(client.ranks[0].reports[0].kind == coll::ReportKind::exception);
    CHECK(client.ranks[0].reports[0].text == std::string(60'000, 't'));
    CHECK_FALSE(is_late);
}

TEST_CASE("an exception of a program below a wrapper is told when the wrapper ends, before that") {
    AgentClient client;
    bool is_early = false;
    client.on_message = [&](const wire::FromAgent& message) {
        is_early = is_early || (std::holds_alternative<wire::RankReport>(message) &&
                                !client.has_written(0, "went on"));
    };

    client.start(plan_with_contract({shell(HVD_AGENT_RANK " report; echo went on; sleep 0.3")}));
    client.read_until_all_gone();

    CHECK(client.ranks[0].reports.size() == 1);
    CHECK_FALSE(is_early);
}

TEST_CASE("what a child of the rank reports is the rank's own business") {
    AgentClient client;

    client.start(
        plan_with_contract({{HVD_AGENT_RANK, "parent"}, shell(HVD_AGENT_RANK " parent; exit $?")}));
    client.read_until_all_gone();

    for (const auto& rank : client.ranks) {
        CHECK(rank.out == "child 1\n");
        CHECK(rank.reports.empty());
        CHECK(WEXITSTATUS(rank.exited->wait_status) == 7);
    }
}

TEST_CASE("a program below a wrapper that hangs after its exception is told of") {
    AgentClient client;
    client.start(plan_with_contract({shell(HVD_AGENT_RANK " hang; exit $?")}));

    client.read_until([&] { return !client.ranks[0].reports.empty(); });
    CHECK_FALSE(client.ranks[0].exited);

    client.send(wire::Stop{.grace_ms = 0});
    client.read_until_all_gone();
    CHECK(client.ranks[0].reports.size() == 1);
}

TEST_CASE("a rank that ends with a question open harms nobody") {
    AgentClient client;
    std::optional<wire::Get> question;
    client.on_message = [&](const wire::FromAgent& message) {
        if (const auto* get = std::get_if<wire::Get>(&message)) {
            question = *get;
        }
    };
    client.start(plan_with_contract({{HVD_AGENT_RANK, "ask"}, shell("exec sleep 60")}));
    client.read_until([&] { return client.ranks[0].exited.has_value(); });

    REQUIRE(question);
    client.send(wire::GetValue{.rank = 0, .request = question->request, .value = {}});
    client.send(wire::Stop{.grace_ms = 1000});
    client.read_until_all_gone();

    CHECK(client.wait() == 0);
}

TEST_CASE("ranks hear of one that is gone, those too that connect later, but not that one") {
    AgentClient client;
    client.on_message = [&](const wire::FromAgent& message) {
        const auto* get = std::get_if<wire::Get>(&message);
        if (get != nullptr && get->rank == 1) {
            // Rank 1 waits. Rank 2 connects when this has been said, rank 0 is the one that is
            // gone.
            client.send(wire::PeerLost{.rank = 0, .why = "rank 0 (on host there) has died"});
        }
    };
    client.start(plan_with_contract({{HVD_AGENT_RANK, "ask"},
                                     {HVD_AGENT_RANK, "hear"},
                                     shell("sleep 0.5; exec " HVD_AGENT_RANK " hear")}));
    client.read_until_all_gone();

    CHECK(client.ranks[0].out.empty());
    CHECK(client.ranks[1].out == "rank 0 (on host there) has died\n");
    CHECK(client.ranks[2].out == "rank 0 (on host there) has died\n");
}

TEST_CASE(
    "a world without ranks that are gone has numbers of its own, and misses its members only") {
    AgentClient client;
    std::vector<int> missed;
    client.on_message = [&](const wire::FromAgent& message) {
        const auto* get = std::get_if<wire::Get>(&message);
        if (get != nullptr && get->key == coll::members_key(1)) {
            client.send(wire::PeerLost{.rank = 0, .why = "rank 0 has died"});
            client.send(wire::GetValue{
                .rank = get->rank,
                .request = get->request,
                .value = coll::encode_members({{.rank = 1, .host = 0}, {.rank = 4, .host = 2}})});
        } else if (get != nullptr) {
            client.send(wire::PeerLost{.rank = 3, .why = "rank 3 has died"});
            client.send(wire::PeerLost{.rank = 4, .why = "rank 4 has died"});
        } else if (const auto* report = std::get_if<wire::RankReport>(&message)) {
            missed.push_back(report->report.peer);
        }
    };
    client.start(plan_with_contract({shell("true"), {HVD_AGENT_RANK, "reduced"}}));
    client.read_until_all_gone();

    CHECK(client.ranks[1].err == "");
    CHECK(client.ranks[1].out == "1 on 0, 4 on 2, 1: rank 4 has died\n");
    CHECK(missed == std::vector<int>{4});
}

TEST_CASE("an unauthenticated peer, or garbage, loses only its connection") {
    AgentClient client;
    client.on_message = Keys(client);
    auto plan = plan_with_contract({shell("read go; exec " HVD_AGENT_RANK " exchange")});
    plan.stdin_rank = 0;
    client.start(plan);
    client.read_until([&] { return client.ranks[0].started.has_value(); });
    const auto hello = [](std::string job, int rank) {
        return coll::encode(
            coll::RankMessage{coll::agent_message::Hello{.job_id = std::move(job), .rank = rank}});
    };
    const auto& name = plan.agent_socket;

    CHECK(answer_to_other(name, std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n"))) == "");
    CHECK(answer_to_other(name, std::vector(64, std::byte{0xff})) == "");
    CHECK(answer_to_other(
              name, coll::encode(coll::RankMessage{coll::agent_message::Get{.key = "k"}})) == "");
    CHECK_THAT(answer_to_other(name, hello("other", 0)),
               Catch::Contains("belongs to job other, this agent to job " + job_id()));
    CHECK_THAT(answer_to_other(name, hello(job_id(), 7)),
               Catch::Contains("rank 7 does not run on this host"));
    CHECK_THAT(answer_to_other(name, hello(job_id(), 0)), Catch::Contains("is not rank 0"));
    std::vector<UniqueFd> silent;
    for (int count = 0; count < 200; ++count) {
        silent.push_back(connect_abstract(name, SOCK_STREAM, Deadline::in(5s)).value());
    }

    client.send(wire::Input{.bytes = {std::byte{'\n'}}});
    client.read_until_all_gone();
    CHECK(client.ranks[0].out == "value of 0, refused: it is there already\n");
    CHECK(client.ranks[0].err == "");
}

TEST_CASE("standard input goes to the ranks that want it, back-pressure and end included") {
    AgentClient client;
    auto plan = AgentClient::plan({{"wc", "-c"}, {"wc", "-c"}, shell("sleep 0.3; wc -c")});
    plan.stdin_all = GENERATE(false, true);
    plan.stdin_rank = plan.stdin_all ? -1 : 2;
    client.start(plan);
    constexpr std::uint64_t kBlock = 100'000;
    std::uint64_t sent = 0;

    for (int block = 0; block < 30; ++block) {
        client.read_until([&] { return sent - client.input_taken < wire::kInputWindow; });
        client.send(wire::Input{.bytes = std::vector<std::byte>(kBlock)});
        sent += kBlock;
    }
    client.send(wire::Input{});
    client.read_until_all_gone();

    const std::string all = std::to_string(sent) + "\n";
    CHECK(client.ranks[0].out == (plan.stdin_all ? all : "0\n"));
    CHECK(client.ranks[1].out == (plan.stdin_all ? all : "0\n"));
    CHECK(client.ranks[2].out == all);
    CHECK(client.input_taken == sent);
}

TEST_CASE("a rank that does not read its input delays neither signals nor its end") {
    AgentClient client;
    auto plan =
        AgentClient::plan({shell("trap 'exit 6' USR1; echo ready; while :; do sleep 0.01; done")});
    plan.stdin_rank = 0;
    client.start(plan);
    client.read_until([&] { return client.has_written(0, "ready"); });

    client.send(wire::Input{.bytes = std::vector<std::byte>(wire::kInputWindow)});
    client.send(wire::Signal{.number = SIGUSR1});
    client.read_until_all_gone();

    CHECK(WEXITSTATUS(client.ranks[0].exited->wait_status) == 6);
}

}  // namespace
}  // namespace hvd::test
