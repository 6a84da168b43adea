// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/group_memory.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <map>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

TEST_CASE("what a process group holds is found by its number") {
    constexpr pid_t kNobody = 1 << 30;
    const pid_t other = ::getpgrp() == ::getppid() ? kNobody + 1 : ::getppid();
    const pid_t leader = ::fork();
    if (leader == 0) {
        (void)::setpgid(0, 0);
        (void)::fork();     // a loader
        (void)::alarm(60);  // should the test fail
        (void)::pause();
        ::_exit(0);
    }

    std::vector<GroupMemory> found;
    const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    do {
        found = measure_groups({{leader, 3}, {kNobody, 4}, {other, 5}});
    } while ((found.empty() || found.front().processes < 2) &&
             std::chrono::steady_clock::now() < give_up_at);
    (void)::kill(-leader, SIGKILL);
    (void)::waitpid(leader, nullptr, 0);

    REQUIRE(found.size() == 1);
    CHECK(found.front().rank == 3);
    CHECK(found.front().processes == 2);
    CHECK(found.front().resident_bytes > kMebibyte);
}

TEST_CASE("the largest holders of memory are told with their sizes") {
    CHECK(describe_memory({}).empty());
    CHECK(describe_memory({{.rank = 3, .resident_bytes = 30 * kMebibyte, .processes = 8},
                           {.rank = 0, .resident_bytes = kMebibyte * 3 / 2, .processes = 1},
                           {.rank = 1, .resident_bytes = kMebibyte, .processes = 1},
                           {.rank = 2, .resident_bytes = 1, .processes = 1}}) ==
          "rank 3 30 MiB (8 processes), rank 0 1.5 MiB (1 process), rank 1 1 MiB (1 process)");
}

}  // namespace
}  // namespace hvd::launch::agent
