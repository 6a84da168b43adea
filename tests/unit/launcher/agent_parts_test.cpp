// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/command_path.hpp"
#include "launcher/agent/lifecycle/termination.hpp"
#include "launcher/agent/probe/host_facts.hpp"
#include "launcher/agent/processes/activity.hpp"
#include "launcher/agent/processes/environment_block.hpp"
#include "launcher/agent/processes/process_table.hpp"
#include "launcher/agent/processes/spawner.hpp"
#include "launcher/agent/ranks/kernel_log.hpp"
#include "launcher/agent/ranks/oom_watch.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::agent {
namespace {

using namespace std::chrono_literals;
using Action = Termination::Action;

// ---- the end ----

constexpr Termination::TimePoint kStart{1000s};

TEST_CASE("a stop asks, kills after the grace time, repeats, and gives up") {
    Termination ending;

    CHECK(ending.stop(300ms, kStart) == Action::term_ranks);
    CHECK(ending.deadline() == kStart + 300ms);
    CHECK(ending.time_passed(kStart + 299ms) == Action::none);
    CHECK(ending.time_passed(kStart + 300ms) == Action::kill);
    CHECK(ending.time_passed(kStart + 301ms) == Action::none);
    CHECK(ending.time_passed(kStart + 320ms) == Action::kill);
    CHECK(ending.time_passed(kStart + 1301ms) == Action::give_up);
    CHECK(ending.deadline() == std::nullopt);
    CHECK(ending.time_passed(kStart + 9s) == Action::none);
}

TEST_CASE("a stop without grace kills at once") {
    Termination ending;

    CHECK(ending.stop(0ms, kStart) == Action::kill);
    CHECK(ending.stop(1s, kStart) == Action::none);
}

TEST_CASE("a later stop can only bring the kill forward") {
    Termination ending;
    CHECK(ending.stop(10s, kStart) == Action::term_ranks);

    CHECK(ending.stop(60s, kStart + 1s) == Action::none);
    CHECK(ending.deadline() == kStart + 10s);
    CHECK(ending.stop(500ms, kStart + 1s) == Action::none);
    CHECK(ending.deadline() == kStart + 1500ms);
    CHECK(ending.stop(0ms, kStart + 1s) == Action::kill);
}

TEST_CASE("leftovers are asked once, for a short time") {
    Termination ending;

    CHECK(ending.leftovers(10s, kStart) == Action::term_leftovers);
    CHECK(ending.leftovers(10s, kStart) == Action::none);
    CHECK(ending.deadline() == kStart + Termination::kLeftoverGrace);
    CHECK(ending.time_passed(kStart + Termination::kLeftoverGrace) == Action::kill);
}

TEST_CASE("leftovers have the grace time of a stop") {
    const auto grace = GENERATE(500ms, 20s);
    Termination ending;
    CHECK(ending.stop(grace, kStart) == Action::term_ranks);

    CHECK(ending.leftovers(10s, kStart + 100ms) == Action::term_leftovers);
    CHECK(ending.leftovers(10s, kStart + 200ms) == Action::none);
    CHECK(ending.deadline() == kStart + grace);
    CHECK(Termination().leftovers(0ms, kStart) == Action::kill);
}

TEST_CASE("leftovers have the grace time of a signal that asks") {
    Termination ending;
    ending.ask(20s, kStart);
    CHECK_FALSE(ending.is_stopping());

    CHECK(ending.leftovers(10s, kStart + 100ms) == Action::term_leftovers);
    CHECK(ending.deadline() == kStart + 20s);
}

// ---- processes ----

TEST_CASE("a process is read whatever it calls itself") {
    const auto name = GENERATE(as<std::string>(), "sh", "a b", ") S 1 1 1", "((", "", "x) R 7");
    CAPTURE(name);
    const auto stat =
        "4711 (" + name +
        ") D 17 4700 4690 0 -1 4194304 87 0 0 0 5 6 70 800 20 0 1 0 98765 6422528 1 18\n";

    CHECK(parse_process(stat) == Process{.pid = 4711,
                                         .parent = 17,
                                         .session = 4690,
                                         .state = 'D',
                                         .cpu_ticks = 881,
                                         .start_time = 98765});
}

TEST_CASE("what is no process is refused") {
    CHECK_FALSE(parse_process(""));
    CHECK_FALSE(parse_process("4711 (sh"));
    CHECK_FALSE(parse_process("4711 (sh) S 1 2"));
    CHECK_FALSE(parse_process("x (sh) D 17 4700 4690 0 -1 4 87 0 0 0 0 0 0 0 20 0 1 0 98765 6"));
}

TEST_CASE("what a rank does is told by the one of its processes that tells most") {
    const auto telling = [](std::string_view states, std::vector<std::uint64_t> ticks) {
        std::vector<Process> tree;
        for (const char state : states) {
            tree.push_back({.pid = static_cast<pid_t>(tree.size()),
                            .state = state,
                            .cpu_ticks = ticks[tree.size()],
                            .start_time = tree.size()});
        }
        return most_telling(tree).pid;
    };

    CHECK(telling("S", {0}) == 0);
    CHECK(telling("SSS", {0, 9, 1}) == 1);  // a shell, its program, a helper of that
    CHECK(telling("SS", {0, 0}) == 1);
    CHECK(telling("SDS", {0, 0, 9}) == 1);
    CHECK(telling("DRS", {9, 0, 9}) == 1);
    CHECK(telling("RST", {9, 9, 0}) == 2);
    CHECK(telling("ZS", {9, 0}) == 1);
}

TEST_CASE("descendants are found in any order of numbers") {
    const auto process = [](pid_t pid, pid_t parent) {
        return Process{.pid = pid, .parent = parent};
    };
    const std::vector<Process> all{process(2, 90), process(5, 1), process(90, 100), process(100, 1),
                                   process(101, 100)};

    auto found = descendants(all, 100);

    std::ranges::sort(found, {}, &Process::pid);
    CHECK(found == std::vector{process(2, 90), process(90, 100), process(101, 100)});
    CHECK(descendants(all, 7).empty());
}

TEST_CASE("ancestry follows the parents up to the first process") {
    const auto pids = [](pid_t pid, pid_t ancestor) {
        std::vector<pid_t> all;
        for (const auto& process : lineage(pid, ancestor)) {
            all.push_back(process.pid);
        }
        return all;
    };
    CHECK(pids(::getpid(), ::getpid()) == std::vector{::getpid()});
    CHECK(pids(::getpid(), ::getppid()) == std::vector{::getpid(), ::getppid()});
    CHECK(pids(::getppid(), ::getpid()).empty());
    CHECK(pids(0, 0).empty());
}

// ---- out of memory ----

TEST_CASE("the counter is looked for in the own cgroup first") {
    CHECK(oom_counter_files("0::/user.slice/job\n") ==
          std::vector<std::string>{"/sys/fs/cgroup/user.slice/job/memory.events",
                                   "/sys/fs/cgroup/user.slice/memory.events",
                                   "/sys/fs/cgroup/memory.events", "/proc/vmstat"});
    CHECK(oom_counter_files("5:cpu,memory:/job:7\n4:pids:/\n0::/\n") ==
          std::vector<std::string>{"/sys/fs/cgroup/memory/job:7/memory.oom_control",
                                   "/sys/fs/cgroup/memory/memory.oom_control",
                                   "/sys/fs/cgroup/memory.events", "/proc/vmstat"});
    CHECK(oom_counter_files("") == std::vector<std::string>{"/proc/vmstat"});
}

TEST_CASE("the count is read from each kind of file") {
    CHECK(parse_oom_count("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n") == 2U);
    CHECK(parse_oom_count("oom_kill_disable 0\nunder_oom 0\noom_kill 17\n") == 17U);
    CHECK(parse_oom_count("nr_free_pages 1\noom_kill 0\ndrop_pagecache 0\n") == 0U);
    CHECK_FALSE(parse_oom_count("oom_kill_disable 0\nunder_oom 0\n"));
    CHECK_FALSE(parse_oom_count("oom_kill many\n"));
}

/// A machine of which only these files are known.
class RecordedFiles {
public:
    void put(const char* name, const char* text) const {
        const auto path = root_.path() / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    [[nodiscard]] std::string root() const { return root_.path().string(); }

private:
    test::TempDir root_;
};

TEST_CASE("a kill for want of memory is told with the counter and the lowest limit above it") {
    const RecordedFiles machine;
    machine.put("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    const auto* counter = "sys/fs/cgroup/slurm/job_7/step_0/memory.events";
    machine.put(counter, "low 0\nhigh 0\nmax 3\noom 0\noom_kill 4\noom_group_kill 0\n");
    machine.put("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
    machine.put("sys/fs/cgroup/slurm/job_7/memory.max", "536870912\n");
    OomWatch watch;
    watch.start(machine.root());

    CHECK(watch.take_kill(813).empty());
    machine.put(counter, "low 0\nhigh 0\nmax 9\noom 1\noom_kill 5\noom_group_kill 0\n");

    CHECK(watch.take_kill(813) == "its cgroup's oom_kill rose by 1 (limit 512 MiB)");
    CHECK(watch.take_kill(813).empty());

    machine.put("sys/fs/cgroup/slurm/job_7/memory.peak", "536773018\n");
    machine.put(counter, "low 0\nhigh 0\nmax 9\noom 1\noom_kill 6\noom_group_kill 0\n");
    CHECK(watch.take_kill(813) ==
          "its cgroup's oom_kill rose by 1 (limit 512 MiB), peak 511.9 MiB");
}

TEST_CASE("where the whole machine is counted, the cgroup of the ranks may be asked instead") {
    const RecordedFiles machine;
    const auto* counter = "/sys/fs/cgroup/horovodrun-7-1/memory.events";
    machine.put("proc/self/cgroup", "0::/\n");
    machine.put("proc/vmstat", "oom_kill 7\n");
    OomWatch watch;
    watch.start(machine.root());
    watch.narrow_to(counter);  // which does not exist

    machine.put("proc/vmstat", "oom_kill 8\n");
    CHECK(watch.take_kill(813) == "the machine's oom_kill rose by 1");

    machine.put(counter + 1, "oom_kill 0\n");
    watch.narrow_to(counter);
    machine.put("proc/vmstat", "oom_kill 9\n");
    CHECK(watch.take_kill(813).empty());
    machine.put(counter + 1, "oom_kill 1\n");
    CHECK(watch.take_kill(813) == "its cgroup's oom_kill rose by 1 (no limit)");
}

TEST_CASE("the peak stands beside the limit, in both versions of cgroups") {
    CHECK(memory_peak_file("/sys/fs/cgroup/a/memory.max") == "/sys/fs/cgroup/a/memory.peak");
    CHECK(memory_peak_file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes") ==
          "/sys/fs/cgroup/memory/a/memory.max_usage_in_bytes");
}

// As Linux 6.1 writes them to /dev/kmsg.
constexpr auto* kKillRecord =
    "3,1207,89123456,-;Memory cgroup out of memory: Killed process 813 (python 3) "
    "total-vm:318476kB, anon-rss:62912kB, file-rss:5632kB, shmem-rss:0kB, UID:0 pgtables:192kB "
    "oom_score_adj:0\n";
constexpr auto* kKillWords =
    "Killed process 813 (python 3) total-vm:318476kB, anon-rss:62912kB, file-rss:5632kB, "
    "shmem-rss:0kB, UID:0 pgtables:192kB oom_score_adj:0";

TEST_CASE("a record of the kernel's log names who was killed for want of memory") {
    CHECK(parse_memory_kill(kKillRecord) == MemoryKill{.pid = 813, .text = kKillWords});
    CHECK(parse_memory_kill("3,9,1,-;Out of memory: Killed process 7 (a (b)) total-vm:1kB\n"
                            " SUBSYSTEM=memory\n") ==
          MemoryKill{.pid = 7, .text = "Killed process 7 (a (b)) total-vm:1kB"});
}

TEST_CASE("what is no such record, or none of the kernel's, names nobody") {
    const auto* record = GENERATE(
        "", "3,9,1,-", "x,9,1,-;Out of memory: Killed process 7 (a) total-vm:1kB",
        "11,9,1,-;Out of memory: Killed process 7 (a) total-vm:1kB",  // of a program
        "6,9,1,-;oom_reaper: reaped process 7 (a), now anon-rss:0kB", "3,9,1,-;Killed process 7",
        "3,9,1,-;Killed process x (7 (a)", ";3,Killed process 7 (a)");
    CAPTURE(record);

    CHECK_FALSE(parse_memory_kill(record));
}

/// A machine whose log is a file.
class RecordedLog {
public:
    explicit RecordedLog(const char* pid_namespace) {
        std::filesystem::create_directories(root_.path() / "proc/self/ns");
        std::filesystem::create_directories(root_.path() / "dev");
        std::filesystem::create_symlink(pid_namespace, root_.path() / "proc/self/ns/pid");
        log(kKillRecord);  // before the start
    }
    void log(const char* record) const {
        std::ofstream(root_.path() / "dev/kmsg", std::ios::app) << record;
    }
    [[nodiscard]] std::string root() const { return root_.path().string(); }

private:
    test::TempDir root_;
};

TEST_CASE("a process that the kernel's log names since the start ran out of memory") {
    const RecordedLog machine("pid:[4026531836]");
    OomWatch watch;
    watch.start(machine.root());
    watch.start_log();
    CHECK(watch.take_kill(813).empty());

    machine.log(kKillRecord);

    CHECK(watch.take_kill(812).empty());
    CHECK(watch.take_kill(813) == std::string("the kernel's log: ") + kKillWords);
    CHECK(watch.take_kill(813).empty());
}

TEST_CASE("in a PID namespace of our own the kernel's numbers are not ours") {
    const RecordedLog machine("pid:[4026532211]");
    KernelLog log;
    log.start(machine.root());

    machine.log(kKillRecord);

    CHECK(log.find_kill(813).empty());
}

TEST_CASE("a machine without a log of its kernel has no words of it") {
    const test::TempDir root;
    KernelLog log;
    log.start(root.path().string());

    CHECK(log.find_kill(813).empty());
}

TEST_CASE("limits of both versions of cgroups are read") {
    CHECK(memory_limit_files("/sys/fs/cgroup/a/memory.events") ==
          std::vector<std::string>{"/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"});
    CHECK(memory_limit_files("/sys/fs/cgroup/memory/b/memory.oom_control") ==
          std::vector<std::string>{"/sys/fs/cgroup/memory/b/memory.limit_in_bytes",
                                   "/sys/fs/cgroup/memory/memory.limit_in_bytes"});
    CHECK(memory_limit_files("/proc/vmstat").empty());
    CHECK(parse_memory_limit("67108864\n") == 67108864U);
    CHECK_FALSE(parse_memory_limit("max\n"));
    CHECK_FALSE(parse_memory_limit("9223372036854771712\n"));
}

// ---- ports ----

TEST_CASE("a port range is two numbers in order") {
    CHECK(parse_port_range("32768\t60999\n") == std::pair(32768, 60999));
    CHECK_FALSE(parse_port_range("32768"));
    CHECK_FALSE(parse_port_range("60999 32768"));
    CHECK_FALSE(parse_port_range("1 70000"));
}

TEST_CASE("a port is never one that the kernel may give to a connection") {
    const auto range = GENERATE(values<std::pair<int, int>>(
        {{32768, 60999}, {1024, 60000}, {10000, 20000}, {50000, 65535}, {1, 9999}}));
    CAPTURE(range.first, range.second);

    for (unsigned number = 0; number < 200'000; number += 97) {
        const int port = pick_port(range, number);
        REQUIRE(port >= 10'000);
        REQUIRE(port <= 65'535);
        REQUIRE((port < range.first || port > range.second));
    }
}

TEST_CASE("where every port is ephemeral, one is still given") {
    CHECK(pick_port({1024, 65535}, 5) >= 10'000);
}

// ---- commands and their environment ----

TEST_CASE("a command is found where the shell would find it") {
    const test::TempDir folder;
    const auto make = [&](const std::string& name, bool is_program) {
        std::filesystem::create_directories((folder.path() / name).parent_path());
        const auto file = folder.write(name, "#!/bin/sh\n");
        std::filesystem::permissions(
            file, is_program ? std::filesystem::perms(0755) : std::filesystem::perms(0644));
    };
    make("one/tool", false);
    make("two/tool", true);
    make("here", true);
    make("plain", false);
    std::filesystem::create_directories(folder.path() / "one/folder");
    const auto cwd = folder.path().string();
    const auto find = [&](const std::string& name, const std::string& path) {
        return find_command(name, path, cwd);
    };
    std::filesystem::create_symlink("nothing", folder.path() / "one/dangling");

    CHECK(find("tool", cwd + "/one:" + cwd + "/two") == CommandFile{cwd + "/two/tool", 0});
    CHECK(find("tool", "one:two") == CommandFile{"two/tool", 0});
    CHECK(find("tool", "one") == CommandFile{"one/tool", EACCES});
    CHECK(find("folder", "one") == CommandFile{"one/folder", EACCES});
    CHECK(find("dangling", "one:two") == CommandFile{"one/dangling", ENOENT});
    CHECK(find("missing", "one:two") == CommandFile{"", ENOENT});
    CHECK(find("here", ":/nonexistent") == CommandFile{"./here", 0});
    CHECK(find("here", "/nonexistent") == CommandFile{"", ENOENT});
    CHECK(find("./here", "") == CommandFile{"./here", 0});
    CHECK(find("./plain", "") == CommandFile{"./plain", EACCES});
    CHECK(find("two/../two/tool", "") == CommandFile{"two/../two/tool", 0});
    CHECK(find("plain/x", "") == CommandFile{"plain/x", ENOTDIR});
    CHECK(find("", "one") == CommandFile{"", ENOENT});
    CHECK(find_command("sh", std::nullopt, "/") == CommandFile{"/bin/sh", 0});
}

TEST_CASE("own variables take the place of shared ones, and both stay sorted") {
    EnvironmentBlock shared({{"A", "1"}, {"B", "1"}, {"D", ""}});
    EnvironmentBlock own({{"AA", "2"}, {"B", "2"}, {"E", "x=y"}});

    std::vector<std::string> texts;
    for (const char* text : shared.with(own)) {
        texts.emplace_back(text == nullptr ? "(end)" : text);
    }

    CHECK(texts == std::vector<std::string>{"A=1", "AA=2", "B=2", "D=", "E=x=y", "(end)"});
    CHECK(shared.find("A") == "1");
    CHECK(shared.find("D") == "");
    CHECK_FALSE(shared.find("AA"));
    CHECK(own.find("E") == "x=y");
}

}  // namespace
}  // namespace hvd::launch::agent
