// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/spawner.hpp"

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/processes/environment_block.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <variant>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

TEST_CASE("where the cgroup of a job takes no process, its ranks start in our own") {
    Inheritance given;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): in a program of one thread
    REQUIRE(::sigprocmask(SIG_SETMASK, nullptr, &given.signal_mask) == 0);
    const UniqueFd no_cgroup(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    Spawner spawner(given, no_cgroup.get());
    EnvironmentBlock shared(Environment{});
    EnvironmentBlock own(Environment{});
    const SpawnRequest request{.argv = {"true"},
                               .cpus = {},
                               .cwd = {},
                               .in = STDIN_FILENO,
                               .out = STDOUT_FILENO,
                               .err = STDERR_FILENO};

    for (int rank = 0; rank < 2; ++rank) {
        const auto started = spawner.spawn(request, shared.with(own), "/bin/true");

        REQUIRE(std::holds_alternative<pid_t>(started));
        int status = -1;
        CHECK(::waitpid(std::get<pid_t>(started), &status, 0) == std::get<pid_t>(started));
        CHECK(status == 0);
    }
}

}  // namespace
}  // namespace hvd::launch::agent
