// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/process_table.hpp"

#include "launcher/remote/pipe.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// Forks one that leads a session, and whom nobody knows once it has ended.
pid_t end_of_a_leader(pid_t* left_behind) {
    auto told = make_pipe();
    const pid_t leader = ::fork();
    if (leader == 0) {
        (void)::setsid();
        const pid_t child = ::fork();
        if (child == 0) {
            (void)::alarm(60);  // should the test fail
            (void)::pause();
            ::_exit(0);
        }
        (void)::write(told->write.get(), &child, sizeof child);
        ::_exit(0);
    }
    (void)::waitpid(leader, nullptr, 0);
    if (::read(told->read.get(), left_behind, sizeof *left_behind) != sizeof *left_behind) {
        *left_behind = 0;
    }
    return leader;
}

}  // namespace

TEST_CASE("who is of the session of guard or agent is of the job, whoever its parent became") {
    pid_t left_behind = 0;
    const pid_t leader = end_of_a_leader(&left_behind);
    REQUIRE(left_behind > 0);
    constexpr pid_t kNobody = 1 << 30;

    for (const auto& marks : {JobMarks{.guard = kNobody, .agent = leader, .job_id = {}},
                              JobMarks{.guard = leader, .agent = kNobody, .job_id = {}}}) {
        const auto found = find_job(marks);
        REQUIRE(found.size() == 1);
        CHECK(found.front().pid == left_behind);
    }

    (void)::kill(left_behind, SIGKILL);
}

}  // namespace hvd::launch::agent
