// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/build_id.hpp"
#include "tests/integration/agent/agent_client.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>

#include <linux/close_range.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;
using wire::Stream;

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
        CHECK_FALSE(rank.exited->induced);
        CHECK_FALSE(rank.exited->oom);
        CHECK(rank.exited->max_rss_bytes > 1000);
        CHECK(rank.started->pid > 1);
    }
    const auto place = [&](const char* what) { return std::ranges::find(order, what); };
    CHECK(place("started 0") < place("output 0"));
    CHECK(place("output 0") < place("exited 0"));
    CHECK(client.all_gone->survivors.empty());
    CHECK(client.wait() == 0);
}

TEST_CASE("a rank has its environment, directory and processors, and nothing else") {
    const auto close_ours = [] { (void)::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); };
    AgentClient client({"SECRET_OF_THE_AGENT=1"}, close_ours);
    auto plan =
        AgentClient::plan({shell("pwd; env | sort; grep Cpus_allowed_list /proc/self/status;"
                                 " ls /proc/self/fd | tr '\\n' ' '")});
    plan.env = {{"A", "shared"}, {"B", "shared"}, {"PATH", "/usr/bin:/bin"}, {"Z", ""}};
    plan.ranks[0].env = {{"AA", "own"}, {"B", "own"}};
    plan.ranks[0].cwd = "/usr";
    plan.ranks[0].cpus = {client.facts().cpus.back()};

    client.start(plan);
    client.read_until_all_gone();

    const auto cpu = std::to_string(client.facts().cpus.back());
    CHECK(client.ranks[0].out ==
          "/usr\nA=shared\nAA=own\nB=own\nPATH=/usr/bin:/bin\nPWD=/usr\nZ=\n"
          "Cpus_allowed_list:\t" +
              cpu + "\n0 1 2 3 ");
    CHECK(client.ranks[0].err.empty());
}

TEST_CASE("a rank that cannot start tells the step and the errno") {
    AgentClient client;
    auto plan = AgentClient::plan(
        {{"nosuch-program"}, {"/etc/passwd"}, {"/bin/true"}, {"/bin/true"}, {"./true"}, {"true"}});
    plan.ranks[2].cwd = "/nonexistent";
    plan.ranks[3].cpus = {1000};
    plan.ranks[4].cwd = "/bin";
    plan.ranks[5].cwd = "/";

    client.start(plan);
    client.read_until_all_gone();

    const auto expect = [&](std::size_t rank, const char* step, int error_number) {
        CAPTURE(rank);
        REQUIRE(client.ranks[rank].failed);
        CHECK(client.ranks[rank].failed->step == step);
        CHECK(client.ranks[rank].failed->error_number == error_number);
        CHECK_FALSE(client.ranks[rank].exited);
    };
    expect(0, "execve nosuch-program", ENOENT);
    expect(1, "execve /etc/passwd", EACCES);
    expect(2, "chdir /nonexistent", ENOENT);
    expect(3, "sched_setaffinity", EINVAL);
    CHECK(client.ranks[4].exited);
    CHECK(client.ranks[5].exited);
    CHECK(client.wait() == 0);
}

TEST_CASE(
    "a rank has the mask, dispositions, umask, priority and limits that the agent was given") {
    const std::string show =
        "grep -E '^(Umask|SigBlk|SigIgn|SigCgt|SigQ)' /proc/self/status; ulimit -a; nice";
    const auto prepare = [] {
        (void)std::signal(SIGHUP, SIG_IGN);
        (void)std::signal(SIGCHLD, SIG_IGN);
        (void)std::signal(SIGPIPE, SIG_DFL);
        sigset_t mask;
        ::sigemptyset(&mask);
        ::sigaddset(&mask, SIGUSR2);
        ::sigaddset(&mask, SIGRTMIN);
        (void)::sigprocmask(SIG_SETMASK, &mask, nullptr);
        ::umask(027);
        (void)!::nice(3);
        const rlimit files{.rlim_cur = 40, .rlim_max = 4000};
        (void)::setrlimit(RLIMIT_NOFILE, &files);
    };
    AgentClient client({}, prepare);

    client.start(AgentClient::plan({shell(show), shell("sleep 0")}));
    client.read_until_all_gone();

    // The same in a process of ours, without an agent between.
    std::array<int, 2> ends{-1, -1};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t bare = ::fork();
    if (bare == 0) {
        prepare();
        ::dup2(ends[1], STDOUT_FILENO);
        ::execl("/bin/sh", "/bin/sh", "-c", show.c_str(), nullptr);
        ::_exit(127);
    }
    ::close(ends[1]);
    std::string expected;
    std::array<char, 4096> text{};
    for (ssize_t size = 1; size > 0;) {
        size = ::read(ends[0], text.data(), text.size());
        expected.append(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    ::close(ends[0]);
    ::waitpid(bare, nullptr, 0);
    // How many signals all processes of the user have pending is not ours to keep equal.
    const auto drop_queue = [](std::string& all) {
        if (const auto at = all.find("SigQ"); at != std::string::npos) {
            all.erase(at, all.find('\n', at) - at);
        }
    };
    drop_queue(expected);
    drop_queue(client.ranks[0].out);
    CHECK(expected.size() > 300);
    CHECK(client.ranks[0].out == expected);
}

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
    client.read_until([&] { return client.ranks[1].exited.has_value(); });

    CHECK(client.ranks[0].out.size() == wire::kOutputWindow);
    CHECK(WEXITSTATUS(client.ranks[1].exited->wait_status) == 4);
}

TEST_CASE("signals reach the rank: those of a terminal its children too, others it alone") {
    AgentClient client;
    const auto script = shell(
        "trap 'echo usr1' USR1; trap 'echo hup; exit 5' HUP;"
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
    CHECK_FALSE(client.ranks[0].exited->induced);
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
    CHECK(std::ranges::all_of(client.ranks, [](const auto& rank) { return rank.exited->induced; }));
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

TEST_CASE("TERM to the agent ends the job in order and says who sent it") {
    AgentClient client;
    client.start(
        AgentClient::plan({shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done")}));
    client.read_until([&] { return client.has_written(0, "ready"); });

    (void)::kill(client.hello().pid, SIGTERM);
    client.read_until_all_gone();

    CHECK(WEXITSTATUS(client.ranks[0].exited->wait_status) == 9);
    REQUIRE(client.notes.size() == 1);
    CHECK_THAT(client.notes[0],
               Catch::Contains("SIGTERM from process " + std::to_string(::getpid())));
}

}  // namespace
}  // namespace hvd::test
