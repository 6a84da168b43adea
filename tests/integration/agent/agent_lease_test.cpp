// SPDX-License-Identifier: Apache-2.0
//
// A launcher that falls silent, and a kernel that kills for want of memory.
#include "tests/integration/agent/agent_client.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::int64_t now_ns() {
    return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// Asks, and returns the answer.
wire::Pong ask(AgentClient& client, std::int64_t lease_ms) {
    std::optional<wire::Pong> pong;
    client.on_message = [&](const wire::FromAgent& message) {
        if (const auto* answer = std::get_if<wire::Pong>(&message)) {
            pong = *answer;
        }
    };
    client.send(wire::Ping{.asked_ns = now_ns(), .lease_ms = lease_ms});
    client.read_until([&] { return pong.has_value(); });
    client.on_message = nullptr;
    return *pong;
}

bool lives(const AgentClient& client, int rank) {
    return ::kill(client.ranks.at(static_cast<std::size_t>(rank)).started->pid, 0) == 0;
}

TEST_CASE("an agent answers with its clock while its output is held up") {
    AgentClient client;
    client.gives_credit = false;
    client.start(AgentClient::plan({shell("yes & echo ready >&2; exec sleep 60")}));
    client.read_until([&] { return client.ranks[0].out.size() >= wire::kOutputWindow / 2; });
    (void)::usleep(100'000);  // the rest comes, and then no more

    const auto before = now_ns();
    const auto pong = ask(client, 0);

    CHECK(pong.asked_ns >= before);
    CHECK(pong.heard_ns >= pong.asked_ns);
    CHECK(pong.answered_ns >= pong.heard_ns);
    CHECK(pong.answered_ns <= now_ns());
}

TEST_CASE("an agent that hears nothing for its lease ends its ranks within a second more") {
    AgentClient client;
    client.start(AgentClient::plan({shell("trap '' TERM; while :; do sleep 0.1; done")}));
    client.read_until([&] { return client.ranks[0].started.has_value(); });
    (void)ask(client, 500);

    const auto heard = Clock::now();
    const int exit_code = client.wait();

    CHECK(exit_code == 0);
    CHECK_FALSE(lives(client, 0));
    CHECK(Clock::now() - heard >= 500ms);
    CHECK(Clock::now() - heard < 500ms + 1s + 500ms);  // and some for a busy machine
}

TEST_CASE("any byte renews the lease, an announced pause lifts it") {
    AgentClient client;
    client.start(AgentClient::plan({{"sleep", "60"}}));
    client.read_until([&] { return client.ranks[0].started.has_value(); });

    (void)ask(client, 600);
    for (int count = 0; count < 5; ++count) {
        (void)::usleep(250'000);
        client.send(wire::Credit{.bytes = 0});
    }
    CHECK(lives(client, 0));
    (void)ask(client, 0);
    (void)::usleep(900'000);

    CHECK(lives(client, 0));
    client.send(wire::Stop{.grace_ms = 0});
    client.read_until_all_gone();
}

TEST_CASE("an agent that was stopped hears first what was said meanwhile") {
    AgentClient client;
    client.start(AgentClient::plan({{"sleep", "60"}}));
    client.read_until([&] { return client.ranks[0].started.has_value(); });
    (void)ask(client, 500);

    (void)::kill(client.hello().pid, SIGSTOP);
    (void)::usleep(700'000);
    client.send(wire::Ping{.asked_ns = now_ns(), .lease_ms = 20'000});
    (void)::kill(client.hello().pid, SIGCONT);
    (void)ask(client, 20'000);

    CHECK(lives(client, 0));
    client.send(wire::Stop{.grace_ms = 0});
    client.read_until_all_gone();
}

/// A memory cgroup (version 1) of 64 MiB, as long as it lives; empty where none can be made.
class MemoryCgroup final {
public:
    MemoryCgroup() : folder_("/sys/fs/cgroup/memory/hvd-oom-test-" + std::to_string(::getpid())) {
        if (::mkdir(folder_.c_str(), 0700) != 0 || !put("memory.limit_in_bytes", "67108864")) {
            remove();
            folder_.clear();
            return;
        }
        (void)put("memory.memsw.limit_in_bytes", "67108864");
    }
    ~MemoryCgroup() { remove(); }
    MemoryCgroup(const MemoryCgroup&) = delete;
    MemoryCgroup& operator=(const MemoryCgroup&) = delete;

    [[nodiscard]] bool exists() const { return !folder_.empty(); }

    /// Moves this process there.
    void enter() const { (void)put("cgroup.procs", "0"); }

private:
    [[nodiscard]] bool put(const char* file, const char* value) const {
        std::ofstream stream(folder_ + "/" + file);
        return static_cast<bool>(stream << value << std::flush);
    }
    void remove() const {
        for (int count = 0; count < 100 && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY;
             ++count) {
            (void)::usleep(10'000);  // its last process is on its way out
        }
    }

    std::string folder_;
};

#ifndef HVD_SANITIZE_ADDRESS  // which needs more memory than the cgroup has
TEST_CASE("who is killed for want of memory in its cgroup is told from who is killed by others") {
    const MemoryCgroup cgroup;
    if (!cgroup.exists()) {
        skip("a memory cgroup of version 1 cannot be made here");
        return;
    }
    AgentClient client({}, [&] { cgroup.enter(); });

    client.start(AgentClient::plan({{"tail", "/dev/zero"}, shell("kill -KILL $$")}));
    client.read_until_all_gone();

    REQUIRE(client.ranks[0].exited);
    REQUIRE(client.ranks[1].exited);
    CHECK(WTERMSIG(client.ranks[0].exited->wait_status) == SIGKILL);
    CHECK_THAT(client.ranks[0].exited->oom,
               Catch::StartsWith("its cgroup's oom_kill rose by 1 (limit 64 MiB), peak "));
    CHECK(WTERMSIG(client.ranks[1].exited->wait_status) == SIGKILL);
    CHECK(client.ranks[1].exited->oom.empty());
    CHECK(client.wait() == 0);
}
#endif

}  // namespace
}  // namespace hvd::test
