// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/slurm/srun_line.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using hvd::launch::srun_line;

namespace {

std::vector<std::string> line(std::vector<int> tasks = {}) {
    return srun_line({.job_id = "42",
                      .nodes = {"n1", "n2", "n7"},
                      .tasks = std::move(tasks),
                      .file = "/opt/hvd-agent",
                      .build_id = "1.0-abc",
                      .bytes = 1234,
                      .port = 4000,
                      .addresses = {"10.0.0.1", "[fd00::1]"},
                      .timeout = std::chrono::milliseconds(29'500)});
}

}  // namespace

TEST_CASE("srun starts one agent on each node, beside whatever else runs there") {
    const auto words = line();
    const auto shell = std::ranges::find(words, "/bin/sh");

    REQUIRE(shell != words.end());
    CHECK(std::vector(words.begin(), shell) ==
          std::vector<std::string>{"srun", "--jobid=42", "--nodes=3", "--ntasks=3",
                                   "--ntasks-per-node=1", "--nodelist=n1,n2,n7", "--overlap",
                                   "--mpi=none", "--cpu-bind=none", "--mem=0", "--export=ALL",
                                   "--kill-on-bad-exit=0", "--wait=0", "--job-name=horovodrun"});
}

TEST_CASE("a component of a heterogeneous job is named to srun") {
    const auto words = srun_line({.job_id = "42",
                                  .component = 1,
                                  .nodes = {"n1"},
                                  .file = "",
                                  .build_id = "",
                                  .addresses = {}});

    CHECK(std::ranges::count(words, "--het-group=1") == 1);
    CHECK(std::ranges::none_of(line(),
                               [](const auto& word) { return word.starts_with("--het-group"); }));
}

TEST_CASE("a step has the shape of the job's tasks where it is to have their GPUs") {
    const auto words = line({2, 1, 3});
    const auto first = std::ranges::find(words, "--nodes=3");

    REQUIRE(words.end() - first > 4);
    CHECK(std::vector(first, first + 4) ==
          std::vector<std::string>{"--nodes=3", "--ntasks=6", "--distribution=arbitrary",
                                   "--nodelist=n1,n1,n2,n7,n7,n7"});
}

TEST_CASE("the agents are told whom to dial, and how long") {
    const auto words = line();
    const auto name = std::ranges::find(words, "hvd-srun");

    REQUIRE(name != words.end());
    CHECK(std::vector(name + 1, words.end()) ==
          std::vector<std::string>{"/opt/hvd-agent", "1.0-abc", "1234", "4000", "--join",
                                   "10.0.0.1:4000", "--join", "[fd00::1]:4000", "--join-step",
                                   "slurm", "--start-timeout", "30"});
}
