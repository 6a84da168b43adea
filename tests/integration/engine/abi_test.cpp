// SPDX-License-Identifier: Apache-2.0
//
// The shared library as programs use it, in processes that a launcher has started.
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

#include <unistd.h>

using hvd::test::failures;
using hvd::test::run_ranks;

namespace {

/// `launchers` launchers at once, each of `ranks` ranks; what failed.
std::string launch(const std::string& name, int ranks, int launchers = 1) {
    const auto ends = run_ranks(launchers, [&](int) {
        (void)::execl(HVD_ABI_WORKER, HVD_ABI_WORKER, "launch", std::to_string(ranks).c_str(),
                      name.c_str(), nullptr);
        return 127;
    });
    return failures(ends);
}

}  // namespace

TEST_CASE("every operation of the C++ API, at 1, 2 and 3 ranks") {
    const int ranks = GENERATE(1, 2, 3);
    CAPTURE(ranks);

    CHECK(launch("all_operations", ranks) == "");
}

TEST_CASE("memory, plans and the first of several tickets through the C ABI") {
    const std::string name = GENERATE("memory", "plans", "plan_in_smaller_world", "wait_for_any");
    const int ranks = GENERATE(1, 2, 3);
    CAPTURE(name, ranks);

    CHECK(launch(name, ranks) == "");
}

TEST_CASE("gradients that are submitted one by one travel together, as those of one call do") {
    CHECK(launch("gradients_fuse", 2) == "");
}

TEST_CASE("init, shutdown and init again work a hundred times") {
    CHECK(launch("leave_and_join", 2) == "");
}

TEST_CASE("several inits give the same context, from several threads too") {
    CHECK(launch("join_twice", 2) == "");
}

TEST_CASE("a forked child knows its topology and harms nothing") {
    CHECK(launch("fork_children", 2) == "");
}

TEST_CASE("jobs of one user that start at once never meet") {
    CHECK(launch("meet_own_job", 2, 4) == "");
}

TEST_CASE("a limit of all the milliseconds there are is none") {
    CHECK(launch("limits", 2) == "");
}

TEST_CASE("streams find results of the host without an event, at 1 and 3 ranks") {
    const int ranks = GENERATE(1, 3);
    CAPTURE(ranks);

    CHECK(launch("stream_waits", ranks) == "");
}

TEST_CASE("the stream forms of waiting keep their limits") {
    CHECK(launch("stream_wait_limit", 2) == "");
}

TEST_CASE("a world is healthy until a peer dies, whose rank the health names") {
    CHECK(launch("health_after_death", 3) == "");
}

TEST_CASE("what waits is refused in a callback, and submits nothing") {
    CHECK(launch("waits_in_callback", 1) == "");
}

TEST_CASE("a callback during shutdown can neither shut down nor init") {
    CHECK(launch("callback_in_shutdown", 2) == "");
}

TEST_CASE("a callback in a world may ask hvd_init for its context") {
    CHECK(launch("init_in_callback", 1) == "");
}

TEST_CASE("an exception that leaves a callback fails its operation and nothing else") {
    CHECK(launch("throwing_callback", 2) == "");
}

// A sanitizer ends a process that has no memory left.
#if !defined(HVD_SANITIZE_ADDRESS) && !defined(HVD_SANITIZE_THREAD)
TEST_CASE("no function throws when there is no memory") {
    CHECK(launch("no_memory", 1) == "");
}
#endif

TEST_CASE("more memory than there can be is no memory") {
    CHECK(launch("too_much_memory", 1) == "");
}

TEST_CASE("values are rounded on the way, at 1, 2 and 4 ranks") {
    const int ranks = GENERATE(1, 2, 4);
    CAPTURE(ranks);

    CHECK(launch("rounding", ranks) == "");
}

TEST_CASE("process sets are made by init and later, and work among their members") {
    const int ranks = GENERATE(3, 4);
    CAPTURE(ranks);

    CHECK(launch("process_sets", ranks) == "");
}

TEST_CASE("process sets are fixed where nobody asked for others") {
    CHECK(launch("fixed_process_sets", 2) == "");
}

TEST_CASE("metrics are listed by process set and operation") {
    const int ranks = GENERATE(2, 3);
    CAPTURE(ranks);

    CHECK(launch("metrics", ranks) == "");
}

TEST_CASE("alltoall, reducescatter, Adasum and join through the C++ API") {
    const int ranks = GENERATE(1, 2, 3);
    CAPTURE(ranks);

    CHECK(launch("operations_by_rank", ranks) == "");
}

TEST_CASE("Adasum averages the tensors of a host's ranks where all ranks ask for that") {
    CHECK(launch("adasum_across_hosts", GENERATE(1, 2, 3)) == "");
    CHECK(launch("adasum_differs", 2) == "");
}

TEST_CASE("a program that was compiled against 0.29 runs, and finds its memory as it left it") {
    const int ranks = GENERATE(1, 2);
    CAPTURE(ranks);

    const auto ends = run_ranks(ranks, [&](int rank) {
        // As mpiexec.hydra starts them. NOLINTBEGIN(concurrency-mt-unsafe)
        (void)::setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
        (void)::setenv("PMI_SIZE", std::to_string(ranks).c_str(), 1);
        (void)::setenv("MPI_LOCALRANKID", std::to_string(rank).c_str(), 1);
        (void)::setenv("MPI_LOCALNRANKS", std::to_string(ranks).c_str(), 1);
        // NOLINTEND(concurrency-mt-unsafe)
        (void)::execl(HVD_ABI_0_29, HVD_ABI_0_29, nullptr);
        return 127;
    });

    CHECK(failures(ends) == "");
}
