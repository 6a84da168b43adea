// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/agent/agent_client.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>

#include <linux/close_range.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

TEST_CASE(
    "a rank has its environment and the record of it, directory and processors, nothing else") {
    const auto close_ours = [] { (void)::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); };
    AgentClient client({"SECRET_OF_THE_AGENT=1"}, close_ours);
    auto plan =
        AgentClient::plan({shell("pwd; env | sort; grep Cpus_allowed_list /proc/self/status;"
                                 " ls /proc/self/fd | tr '\\n' ' '")});
    plan.env = {
        {"A", "shared"}, {"B", "shared"}, {"PATH", "/usr/bin:/bin"}, {"RANK", "7"}, {"Z", ""}};
    plan.ranks[0].env = {{"AA", "own"}, {"B", "own"}, {"LOCAL_RANK", "0"}};
    plan.ranks[0].cwd = "/usr";
    plan.ranks[0].cpus = {client.facts().cpus.back()};

    client.start(plan);
    client.read_until_all_gone();

    const auto cpu = std::to_string(client.facts().cpus.back());
    CHECK(client.ranks[0].out ==
          "/usr\nA=shared\nAA=own\nB=own\nHOROVOD_LAUNCHER_VARIABLES=LOCAL_RANK=0;RANK=7\n"
          "LOCAL_RANK=0\nPATH=/usr/bin:/bin\nPWD=/usr\nRANK=7\nZ=\n"
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
    CHECK_THAT(client.ranks[0].failed->why_not_executed, Catch::Contains("was not found in PATH"));
    expect(1, "execve /etc/passwd", EACCES);
    expect(2, "chdir /nonexistent", ENOENT);
    expect(3, "sched_setaffinity", EINVAL);
    CHECK(client.ranks[3].failed->why_not_executed.empty());
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
        (void)(::nice(3) == 0);  // glibc wants the result looked at
        const rlimit files{.rlim_cur = 40, .rlim_max = 4000};
        (void)::setrlimit(RLIMIT_NOFILE, &files);
    };
    AgentClient client({}, prepare);

    client.start(AgentClient::plan({shell(show), shell("sleep 0")}));
    client.read_until_all_gone();

    // The same in a child process, without an agent between.
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

TEST_CASE("a script without an interpreter line is run by sh, a missing interpreter is told") {
    const TempDir folder;
    const auto plain = folder.write("plain", "echo \"plain $1 $#\"\n");
    const auto broken = folder.write("broken", "#!/nonexistent/python\n");
    for (const auto& file : {plain, broken}) {
        std::filesystem::permissions(file, std::filesystem::perms(0755));
    }
    AgentClient client;

    client.start(AgentClient::plan({{plain.string(), "a b", ""}, {broken.string()}}));
    client.read_until_all_gone();

    CHECK(client.ranks[0].out == "plain a b 2\n");
    REQUIRE(client.ranks[1].failed);
    CHECK(client.ranks[1].failed->step ==
          "execve " + broken.string() + ": its interpreter or loader");
    CHECK(client.ranks[1].failed->error_number == ENOENT);
    CHECK(client.ranks[1].failed->why_not_executed ==
          "'" + broken.string() +
              "' is there, but the program in its first line, '/nonexistent/python', is not");
}

TEST_CASE("hundreds of ranks start under a small limit of open files") {
    const auto few_files = [] {
        const rlimit files{.rlim_cur = 64, .rlim_max = 4000};
        (void)::setrlimit(RLIMIT_NOFILE, &files);
    };
    AgentClient client({}, few_files);
    const std::vector<std::vector<std::string>> commands(200, shell("ulimit -Sn"));

    client.start(AgentClient::plan(commands));
    client.read_until_all_gone();

    CHECK(std::ranges::all_of(client.ranks, [](const auto& rank) { return rank.out == "64\n"; }));
    CHECK(client.wait() == 0);
}

}  // namespace
}  // namespace hvd::test
