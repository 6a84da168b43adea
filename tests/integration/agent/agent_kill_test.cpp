// SPDX-License-Identifier: Apache-2.0
//
// kill -9 of the launcher, the guard or the agent leaves no process of the job a second later. Each
// case runs as the first process of a new PID namespace, so that its /proc shows every process that
// escapes.
#include "tests/integration/agent/agent_client.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>

#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

constexpr int kNoNamespace = 77;

/// A rank with a grandchild that has left its parent and session, cleared its environment and
/// ignores TERM.
std::vector<std::string> rank_with_escaped_grandchild() {
    return shell(
        "( ( env -i setsid /bin/sh -c \"trap '' TERM HUP INT; echo escaped; while :; do sleep 0.2; "
        "done\" & ) & ); exec sleep 60");
}

struct Running {
    pid_t guard = 0;
    pid_t agent = 0;
};

Running start_job(AgentClient& client) {
    client.start(
        AgentClient::plan({rank_with_escaped_grandchild(), rank_with_escaped_grandchild()}));
    client.read_until(
        [&] { return client.has_written(0, "escaped") && client.has_written(1, "escaped"); });
    return {.guard = client.guard(), .agent = client.hello().pid};
}

/// The other processes of this namespace.
std::string others() {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const auto name = entry.path().filename().string();
        int pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error != std::errc{} || *end != '\0' || pid == ::getpid()) {
            continue;
        }
        std::ifstream file(entry.path() / "stat");
        std::string stat;
        std::getline(file, stat);
        const auto state = stat.rfind(") ");
        if (state != std::string::npos && stat[state + 2] != 'Z' && stat[state + 2] != 'X') {
            found += stat.substr(0, 60) + "\n";
        }
    }
    return found;
}

/// Fails with 1 unless everybody is gone within a second.
int expect_nobody() {
    std::string left;
    for (const auto deadline = Deadline::in(1s); !deadline.has_passed();) {
        left = others();
        if (left.empty()) {
            return 0;
        }
        (void)::poll(nullptr, 0, 5);
    }
    std::cout << "left after one second:\n" << left << std::flush;
    return 1;
}

/// Runs `scenario` as the first process of a PID namespace; returns its exit code.
int run_alone(const std::function<int()>& scenario) {
    const pid_t outside = ::fork();
    if (outside == 0) {
        if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 &&
            ::unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) {
            ::_exit(kNoNamespace);
        }
        const pid_t first = ::fork();
        if (first == 0) {
            if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                ::mount("proc", "/proc", "proc", 0, nullptr) != 0) {
                ::_exit(kNoNamespace);
            }
            try {
                ::_exit(scenario());
            } catch (const std::exception& error) {
                std::cout << error.what() << '\n' << std::flush;
                ::_exit(1);
            }
        }
        int status = 0;
        (void)::waitpid(first, &status, 0);
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    int status = 0;
    (void)::waitpid(outside, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

bool is_skipped(int result) {
    if (result == kNoNamespace) {
        skip("a PID namespace with its own /proc cannot be made here");
        return true;
    }
    return false;
}

TEST_CASE("the check itself sees an escaped process") {
    const int result = run_alone([] {
        const pid_t escaped = ::fork();
        if (escaped == 0) {
            ::execl("/bin/sleep", "sleep", "60", nullptr);
            ::_exit(127);
        }
        return expect_nobody() == 1 ? 0 : 1;
    });

    if (!is_skipped(result)) {
        CHECK(result == 0);
    }
}

TEST_CASE("kill -9 of the agent leaves nobody") {
    const int result = run_alone([] {
        AgentClient client;
        const auto running = start_job(client);
        (void)::kill(running.agent, SIGKILL);
        return client.wait() == 128 + SIGKILL ? expect_nobody() : 2;
    });

    if (!is_skipped(result)) {
        CHECK(result == 0);
    }
}

TEST_CASE("kill -9 of the guard leaves nobody, and is told") {
    const int result = run_alone([] {
        AgentClient client;
        const auto running = start_job(client);
        (void)::kill(running.guard, SIGKILL);
        client.read_until_all_gone();
        const bool is_told =
            client.notes.size() == 1 &&
            client.notes[0].find("guard process was killed") != std::string::npos &&
            client.leavings.size() == 1 && client.leavings[0].signal == 0;
        return is_told && client.ranks[0].exited->is_killed_by_launcher ? expect_nobody() : 2;
    });

    if (!is_skipped(result)) {
        CHECK(result == 0);
    }
}

TEST_CASE("kill -9 of the launcher leaves nobody") {
    const int result = run_alone([] {
        std::array<int, 2> ready{-1, -1};
        (void)!::pipe(ready.data());
        const pid_t launcher = ::fork();
        if (launcher == 0) {
            AgentClient client;
            (void)start_job(client);
            (void)!::write(ready[1], "x", 1);
            (void)::pause();
        }
        char mark = 0;
        (void)!::read(ready[0], &mark, 1);
        ::close(ready[0]);
        ::close(ready[1]);
        (void)::kill(launcher, SIGKILL);
        return expect_nobody();
    });

    if (!is_skipped(result)) {
        CHECK(result == 0);
    }
}

TEST_CASE("the end of the control stream is TERM, and KILL half a second later") {
    const int result = run_alone([] {
        AgentClient client;
        client.start(AgentClient::plan(
            {shell("trap 'sleep 0.1; echo done > /dev/shm/hvd-agent-kill-test; exit' TERM;"
                   "echo escaped; while :; do sleep 0.01; done"),
             rank_with_escaped_grandchild()}));
        client.read_until(
            [&] { return client.has_written(0, "escaped") && client.has_written(1, "escaped"); });
        client.close();
        const bool had_time = client.wait() == 0 && ::unlink("/dev/shm/hvd-agent-kill-test") == 0;
        return had_time ? expect_nobody() : 2;
    });

    if (!is_skipped(result)) {
        CHECK(result == 0);
    }
}

TEST_CASE("guard and agent killed together take their ranks with them") {
    const int result = run_alone([] {
        AgentClient client;
        client.start(AgentClient::plan({{"sleep", "60"}, {"sleep", "60"}}));
        client.read_until([&] { return client.ranks[1].started.has_value(); });
        (void)::kill(client.guard(), SIGSTOP);  // so that it cannot act in between
        (void)::kill(client.hello().pid, SIGKILL);
        (void)::kill(client.guard(), SIGKILL);
        (void)client.wait();
        return expect_nobody();
    });

    if (!is_skipped(result)) {
        CHECK(result == 0);
    }
}

TEST_CASE("a rank that forks without end is ended too") {
    const int result = run_alone([] {
        AgentClient client;
        client.start(AgentClient::plan({shell(
            "echo escaped; spread() { sleep 0.05; setsid sh -c \"$0\" & }; f='trap \"\" TERM; "
            "sleep 0.02; (setsid sh -c \"$F\" &) ; sleep 1'; export F=\"$f\"; sh -c \"$f\"")}));
        client.read_until([&] { return client.has_written(0, "escaped"); });
        client.send(wire::Stop{.grace_ms = 0});
        client.read_until_all_gone();
        return client.all_gone->survivors.empty() && client.wait() == 0 ? expect_nobody() : 2;
    });

    if (!is_skipped(result)) {
        CHECK(result == 0);
    }
}

}  // namespace
}  // namespace hvd::test
