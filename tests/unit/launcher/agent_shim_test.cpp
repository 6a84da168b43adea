// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/die_with_parent.hpp"
#include "launcher/agent/external/shim.hpp"
#include "launcher/agent/external/shim_protocol.hpp"
#include "launcher/wire/build_id.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <span>
#include <string>

using namespace hvd::launch::agent;  // NOLINT(google-build-using-namespace): a test of it

TEST_CASE("a task is found by the variables of its launcher, Open MPI's first") {
    CHECK(*read_mpi_task({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}) ==
          MpiTask{.launcher = "a launcher with PMI", .rank = 1, .size = 4, .starts_in_turn = true});
    CHECK(*read_mpi_task({{"PMIX_RANK", "3"}}) ==
          MpiTask{.launcher = "a launcher with PMIx", .rank = 3, .size = 0});
    CHECK(*read_mpi_task({{"OMPI_COMM_WORLD_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "3"},
                          {"PMIX_RANK", "2"},
                          {"PMI_RANK", "0"},
                          {"PMI_SIZE", "1"}}) ==
          MpiTask{.launcher = "mpirun of Open MPI", .rank = 2, .size = 3});
    CHECK(*read_mpi_task(
              {{"JSM_NAMESPACE_RANK", "3"}, {"JSM_NAMESPACE_SIZE", "4"}, {"PMIX_RANK", "3"}}) ==
          MpiTask{.launcher = "jsrun", .rank = 3, .size = 4});
}

TEST_CASE("a task that cannot be is refused with the variable") {
    const auto error_of = [](const hvd::Environment& environment) {
        const auto task = read_mpi_task(environment);
        REQUIRE_FALSE(task);
        return task.error().message;
    };

    CHECK(error_of({}).find("OMPI_COMM_WORLD_RANK") != std::string::npos);
    CHECK(error_of({{"PMI_RANK", "1"}}) == "PMI_SIZE is missing, it must be a number from 1");
    CHECK(error_of({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}) ==
          "PMI_RANK='x' must be a number from 0");
    CHECK(error_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}) == "PMI_RANK=2 is not below PMI_SIZE=2");
}

TEST_CASE("frames of a shim come whole, however they were cut") {
    const ShimClaim claim{.build_id = std::string(hvd::launch::wire::build_id()),
                          .job_id = "j",
                          .rank = 3,
                          .size = 4,
                          .pid = 5,
                          .parent = 6,
                          .needs_watch = true,
                          .starts_in_turn = true};
    const ShimReply order{
        .refusal = "", .env = {{"A", "1"}, {"B", ""}}, .is_env_clean = true, .cpus = {2, 3}};
    const ShimFailure failure{
        .step = "execve x", .error_number = 2, .why_not_executed = "'x' is not there"};
    auto bytes = encode(claim);
    for (const auto& more : {encode(order), encode(failure)}) {
        bytes.insert(bytes.end(), more.begin(), more.end());
    }
    ShimFrames frames;
    std::vector<std::vector<std::byte>> bodies;

    for (const auto byte : bytes) {
        frames.feed(std::span(&byte, 1));
        auto body = frames.next();
        REQUIRE(body);
        if (*body) {
            bodies.push_back(std::move(**body));
        }
    }

    REQUIRE(bodies.size() == 3);
    CHECK(*decode_claim(bodies[0]) == claim);
    CHECK(*decode_reply(bodies[1]) == order);
    CHECK(*decode_failure(bodies[2]) == failure);
    CHECK_FALSE(decode_reply(bodies[0]));
}

TEST_CASE("a claim of another build, whatever it holds, tells which build that is") {
    const ShimReply no_claim{.refusal = "0.1+other"};  // begins with a text, as a claim does
    const auto frame = encode(no_claim);

    const auto claim = decode_claim(std::span(frame).subspan(sizeof(std::uint32_t)));

    REQUIRE(claim);
    CHECK(claim->build_id == "0.1+other");
}

TEST_CASE("a frame that is too long is refused before it is kept") {
    const std::vector<std::byte> length(4, std::byte{0xFF});
    ShimFrames frames;

    frames.feed(length);

    CHECK_FALSE(frames.next());
}

TEST_CASE("a child is found in its parent's list by its whole number") {
    CHECK(lists_child("12 345 6 \n", 345));
    CHECK_FALSE(lists_child("12 3456 6 ", 345));
    CHECK_FALSE(lists_child("", 345));
}
