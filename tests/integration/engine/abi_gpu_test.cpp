// SPDX-License-Identifier: Apache-2.0
//
// The shared library as programs with tensors on GPUs use it, on the stand-ins for the CUDA driver
// and NCCL.
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

using hvd::test::failures;
using hvd::test::RankEnd;
using hvd::test::run_ranks;

namespace {

constexpr std::chrono::minutes kLimit{30};  // `ctest` and callers have their own

/// Ranks on a machine with the stand-ins; how their launcher ended.
std::vector<RankEnd> start(const std::string& name, int ranks, const std::string& operations) {
    return run_ranks(
        1,
        [&](int) {
            // NOLINTBEGIN(concurrency-mt-unsafe): this process has one thread
            (void)::setenv("LD_LIBRARY_PATH", HVD_FAKE_GPU, 1);
            (void)::setenv("HOROVOD_GPU_OPERATIONS", operations.c_str(), 1);
            (void)::setenv("HOROVOD_LOG_LEVEL", "info", 0);
            // NOLINTEND(concurrency-mt-unsafe)
            (void)::execl(HVD_ABI_WORKER, HVD_ABI_WORKER, "launch", std::to_string(ranks).c_str(),
                          name.c_str(), nullptr);
            return 127;
        },
        kLimit);
}

/// The failures, of no more ranks than this build's processors can run.
std::string launch(const std::string& name, int ranks, const std::string& operations) {
    return ranks > HVD_MOST_RANKS ? "" : failures(start(name, ranks, operations));
}

#ifdef HVD_HAVE_NCCL
/// The same on two hosts, between which NCCL cannot connect.
std::string launch_on_two_hosts(const std::string& name, int ranks) {
    (void)::setenv("HVD_TEST_HOSTS", "2", 1);  // NOLINT(concurrency-mt-unsafe)
    auto failed = launch(name, ranks, "nccl");
    (void)::unsetenv("HVD_TEST_HOSTS");  // NOLINT(concurrency-mt-unsafe)
    return failed;
}
#endif

}  // namespace

TEST_CASE("tensors of a GPU travel through the host, several ranks on one GPU too") {
    const std::string name = GENERATE("device_operations", "device_sets", "device_plan",
                                      "device_death", "device_failures", "device_not_loaded");
    const int ranks = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(name, ranks);

    CHECK(launch(name, ranks, "host") == "");
}

// Peers of a rank that has failed look for a while whether it still does its part: some 100 times
// that long takes half a minute, in optimised builds only.
TEST_CASE("a call of the driver that fails is an error with its name, and harms no later world") {
    if (HVD_MOST_RANKS == 7) {
        CHECK(launch("device_errors", 2, "host") == "");
    }
}

TEST_CASE("values of tensors on a GPU that travel through the host are rounded there") {
    const int ranks = GENERATE(1, 2, 3);
    CAPTURE(ranks);

    CHECK(launch("device_rounding", ranks, "host") == "");
}

#ifndef HVD_HAVE_NCCL
TEST_CASE("in a build without NCCL tensors of GPUs travel through the host, as nobody asked") {
    const std::string name = GENERATE("device_operations", "device_sets", "device_plan",
                                      "device_death", "device_not_loaded");
    const int ranks = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(name, ranks);

    CHECK(launch(name, ranks, "nccl") == "");
}
#else
TEST_CASE("a call that fails beside NCCL is an error with its name, and harms no later world") {
    const std::string functions = GENERATE("cu", "nccl");
    CAPTURE(functions);

    if (HVD_MOST_RANKS == 7) {
        (void)::setenv("HVD_TEST_FUNCTIONS", functions.c_str(),
                       1);  // NOLINT(concurrency-mt-unsafe)
        CHECK(launch("device_errors", 2, "nccl") == "");
        (void)::unsetenv("HVD_TEST_FUNCTIONS");  // NOLINT(concurrency-mt-unsafe)
    }
}

TEST_CASE("NCCL moves tensors of GPUs, each rank on its own") {
    const std::string name = GENERATE("device_operations", "device_sets", "device_plan",
                                      "device_death", "device_not_loaded");
    const int ranks = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(name, ranks);

    CHECK(launch(name, ranks, "nccl") == "");
}

TEST_CASE("values of tensors on GPUs are rounded where they are packed for NCCL") {
    const int ranks = GENERATE(1, 2, 4);
    CAPTURE(ranks);

    CHECK(launch("device_rounding", ranks, "nccl") == "");
}

TEST_CASE("a rank has tensors on two GPUs, and the ranks of a sum may differ about which") {
    const std::string name =
        GENERATE("device_two_each", "device_different_numbers", "device_second_gpu_fails",
                 "device_second_same_gpu", "device_join_on_second");
    const int ranks = GENERATE(2, 3, 4);
    CAPTURE(name, ranks);

    CHECK(launch(name, ranks, "nccl") == "");
}

TEST_CASE("through the host a rank has tensors on two GPUs as well") {
    CHECK(launch("device_two_each", 2, "host") == "");
}

TEST_CASE("sums on two GPUs of each rank come in any order, on either") {
    const int ranks = GENERATE(2, 3, 4);
    CAPTURE(ranks);

    CHECK(launch("device_orders_on_two", ranks, "nccl") == "");
}

TEST_CASE("a rank says which NCCL it uses, from which file") {
    const auto ends = start("device_plan", 1, "nccl");

    CHECK(failures(ends) == "");
    CHECK_THAT(ends.front().output, Catch::Contains("NCCL 2.28.5, " HVD_FAKE_GPU "/libnccl.so.2"));
}

TEST_CASE("a rank that joins names the GPU on which it takes part") {
    const std::string operations = GENERATE("host", "nccl");
    const int ranks = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(operations, ranks);

    CHECK(launch("device_join", ranks, operations) == "");
}

TEST_CASE("a rank that joins without a GPU keeps nobody waiting") {
    const int ranks = GENERATE(2, 3, 4, 7);
    CAPTURE(ranks);

    CHECK(launch("device_join_without_gpu", ranks, "nccl") == "");
}

TEST_CASE("ranks on one GPU, and with different versions of NCCL, are told of each other") {
    const std::string name = GENERATE("device_same_gpu", "device_other_nccl");
    CAPTURE(name);

    CHECK(launch(name, 2, "nccl") == "");
}

TEST_CASE("the death of a rank inside NCCL is an error of waits and calls, with its name") {
    const int ranks = GENERATE(2, 3, 4, 7);
    CAPTURE(ranks);

    CHECK(launch("device_death_inside", ranks, "nccl") == "");
}

TEST_CASE("after an error of NCCL there can be another world") {
    const int ranks = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(ranks);

    CHECK(launch("device_init_again", ranks, "nccl") == "");
}

TEST_CASE("the peers of a rank whose GPU has failed get the cause") {
    const int ranks = GENERATE(2, 3, 4, 7);
    CAPTURE(ranks);

    CHECK(launch("device_failure_told", ranks, "nccl") == "");
}

TEST_CASE("what takes long before a communicator is made keeps no other process set waiting") {
    CHECK(launch("device_slow_id", 2, "nccl") == "");
}

TEST_CASE("a world ends while NCCL is stuck before a communicator is made") {
    CHECK(launch("device_stuck_id", GENERATE(1, 2, 3), "nccl") == "");
}

TEST_CASE("a world keeps no memory of a GPU, and little where memory is short") {
    const int ranks = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(ranks);

    CHECK(launch("device_memory", ranks, "nccl") == "");
}

TEST_CASE(
    "NCCL knows the memory of fused messages while a communicator lasts, on all ranks or none") {
    const std::string name = GENERATE("device_registered", "device_registered_by_some",
                                      "device_registered_without_memory");
    const int ranks = GENERATE(1, 2, 3, 4);
    CAPTURE(name, ranks);

    CHECK(launch(name, ranks, "nccl") == "");
}

TEST_CASE("Adasum, on the GPU or through the host, never waits for sums that are in flight") {
    const std::string through_host = GENERATE("0", "1");
    const int ranks = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(through_host, ranks);

    // NOLINTBEGIN(concurrency-mt-unsafe): this process has one thread
    (void)::setenv("HOROVOD_ADASUM_HIERARCHICAL", through_host.c_str(), 1);
    CHECK(launch("device_adasum_beside_sums", ranks, "nccl") == "");
    (void)::unsetenv("HOROVOD_ADASUM_HIERARCHICAL");
    // NOLINTEND(concurrency-mt-unsafe)
}

TEST_CASE("a stream that captures a graph is refused, also to wait") {
    CHECK(launch("device_capture", 2, "nccl") == "");
}

TEST_CASE("NCCL moves what each rank submits in an order of its own, 10,000 tensors too") {
    const int ranks = GENERATE(2, 3, 4, 7);
    CAPTURE(ranks);

    CHECK(failures(start("device_orders", ranks, "nccl")) == "");
}

TEST_CASE("NCCL connects the ranks of a host, and sums go through the host between two hosts") {
    const std::string name =
        GENERATE("device_operations", "device_sets", "device_plan", "device_death",
                 "device_not_loaded", "device_two_each", "device_different_numbers", "device_join",
                 "device_join_on_second", "device_join_without_gpu", "device_memory");
    const int ranks = GENERATE(2, 3, 4);
    CAPTURE(name, ranks);

    CHECK(launch_on_two_hosts(name, ranks) == "");
}

TEST_CASE("between two hosts sums on GPUs are rounded, ordered and ended as on one") {
    const std::string name =
        GENERATE("device_rounding", "device_init_again", "device_orders_on_two", "hosts_death",
                 "hosts_halves", "hosts_worlds");
    const int ranks = GENERATE(2, 3, 4);
    CAPTURE(name, ranks);

    CHECK(launch_on_two_hosts(name, ranks) == "");
}
#endif
