// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/task.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): a test of this namespace

TEST_CASE("a task knows its place by the variables of its launcher") {
    CHECK(find_task({{"OMPI_COMM_WORLD_RANK", "2"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
              .value() ==
          Task{.launcher = "mpirun", .rank = 2, .size = 4, .local_rank = 0, .local_size = 2});
    CHECK(find_task({{"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "5"},
                     {"SLURM_STEP_NUM_TASKS", "8"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2(x4)"},
                     {"SLURM_STEP_NUM_NODES", "4"},
                     {"SLURM_NODEID", "2"},
                     {"SLURM_LOCALID", "1"}})
              .value() == Task{.launcher = "srun",
                               .rank = 5,
                               .size = 8,
                               .local_rank = 1,
                               .local_size = 2,
                               .cross_rank = 2,
                               .cross_size = 4});
    for (const auto* wrong : {"2,1", "2(x2),1", "1(x2),3", "2(x2),1,4", "4(x2,0", "x,8", "0,8"}) {
        CAPTURE(wrong);
        const auto task = *find_task({{"SLURM_STEP_ID", "0"},
                                      {"SLURM_PROCID", "2"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_STEP_NUM_TASKS", "8"},
                                      {"SLURM_STEP_TASKS_PER_NODE", wrong},
                                      {"SLURM_STEP_NUM_NODES", "4"},
                                      {"SLURM_NODEID", "1"}});
        CHECK(task->local_size == 0);
        CHECK(task->cross_size == 0);
    }
    CHECK(find_task({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).value() ==
          Task{.launcher = "mpiexec", .rank = 1, .size = 2});
    CHECK(find_task({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}})
              .value()
              ->launcher == "torchrun");
    CHECK(find_task({{"FLUX_TASK_RANK", "3"}, {"FLUX_JOB_SIZE", "4"}, {"FLUX_TASK_LOCAL_ID", "1"}})
              .value() == Task{.launcher = "flux run", .rank = 3, .size = 4, .local_rank = 1});
    CHECK(find_task({{"JSM_NAMESPACE_RANK", "1"}, {"JSM_NAMESPACE_SIZE", "2"}}).value() ==
          Task{.launcher = "jsrun", .rank = 1, .size = 2});
}

TEST_CASE("a rank of horovodrun is a task, unless another launcher is named") {
    const hvd::Environment rank{
        {"HOROVOD_RANK", "1"},         {"HOROVOD_SIZE", "4"},
        {"HOROVOD_LOCAL_RANK", "1"},   {"HOROVOD_LOCAL_SIZE", "2"},
        {"HOROVOD_CROSS_RANK", "0"},   {"HOROVOD_CROSS_SIZE", "2"},
        {"HOROVOD_HOSTNAME", "h"},     {"HOROVOD_JOB_ID", std::string(32, '0')},
        {"HOROVOD_AGENT_SOCKET", "a"}, {"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "4"}};
    const auto named = [&](const std::string& launcher) {
        auto environment = rank;
        environment["HOROVOD_LAUNCHER"] = launcher;
        return *find_task(environment);
    };

    CHECK(find_task(rank).value() == Task{.launcher = "horovodrun",
                                          .rank = 1,
                                          .size = 4,
                                          .local_rank = 1,
                                          .local_size = 2,
                                          .cross_rank = 0,
                                          .cross_size = 2});
    CHECK_FALSE(named("none"));
    CHECK(named("ompi")->launcher == "mpirun");
}

TEST_CASE("RANK alone says nothing, and an allocation is no task") {
    CHECK_FALSE(*find_task({{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
    CHECK_FALSE(*find_task({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
}

TEST_CASE("a task of a Slurm step knows its place where nodes differ in their tasks") {
    // srun -N4 -n9 of nodes with 3, 3, 1 and 2 CPUs: procid, nodeid, localid; cross rank and size.
    const auto [rank, node, local, size, cross, of] = GENERATE(table<int, int, int, int, int, int>({
        {0, 0, 0, 3, 0, 4},
        {4, 1, 1, 3, 1, 3},
        {5, 1, 2, 3, 1, 2},
        {6, 2, 0, 1, 2, 4},
        {8, 3, 1, 2, 2, 3},
    }));
    CAPTURE(rank);

    const auto task = *find_task({{"SLURM_STEP_ID", "0"},
                                  {"SLURM_PROCID", std::to_string(rank)},
                                  {"SLURM_NODEID", std::to_string(node)},
                                  {"SLURM_LOCALID", std::to_string(local)},
                                  {"SLURM_STEP_NUM_TASKS", "9"},
                                  {"SLURM_STEP_NUM_NODES", "4"},
                                  {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1,2"},
                                  {"SLURM_TASKS_PER_NODE", "3(x2),1,2"}});

    REQUIRE(task);
    CHECK(*task == Task{.launcher = "srun",
                        .rank = rank,
                        .size = 9,
                        .local_rank = local,
                        .local_size = size,
                        .cross_rank = cross,
                        .cross_size = of});
}

TEST_CASE("people work by hand in the only task of a Slurm step") {
    hvd::Environment environment{
        {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
    CHECK_FALSE(*find_task(environment));

    environment["SLURM_STEP_NUM_TASKS"] = "2";
    CHECK((*find_task(environment))->launcher == "srun");
}

TEST_CASE("PMI and PMIx of Slurm or Flux are no launcher of their own") {
    hvd::Environment step{{"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "1"},
                          {"PMI_RANK", "0"},
                          {"PMI_SIZE", "1"}};
    CHECK_FALSE(*find_task(step));  // people work by hand there

    step["SLURM_STEP_NUM_TASKS"] = step["PMI_SIZE"] = "2";
    step["TORCHELASTIC_RUN_ID"] = "x";
    step["RANK"] = "3";
    step["WORLD_SIZE"] = "4";
    CHECK((*find_task(step))->launcher == "torchrun");

    step["MPI_LOCALRANKID"] = "0";  // an mpiexec after all
    CHECK((*find_task(step))->launcher == "mpiexec");

    CHECK_FALSE(*find_task({{"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_STEP_NUM_TASKS", "1"},
                            {"PMIX_RANK", "0"},
                            {"PMIX_NAMESPACE", "slurm.pmix.7.0"}}));
    CHECK((*find_task({{"FLUX_TASK_RANK", "1"},
                       {"FLUX_JOB_SIZE", "2"},
                       {"PMI_RANK", "1"},
                       {"PMI_SIZE", "2"}}))
              ->launcher == "flux run");
}

TEST_CASE("a launcher with PMIx alone does not say how many there are") {
    const auto task = find_task({{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "prterun-h1-7@1"}});

    CHECK(task.value() == Task{.launcher = "PMIx", .rank = 3, .size = 0});
}

TEST_CASE("HOROVOD_LAUNCHER names the launcher, or none") {
    hvd::Environment both{{"OMPI_COMM_WORLD_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"PMI_RANK", "0"},
                          {"PMI_SIZE", "2"}};
    both["HOROVOD_LAUNCHER"] = "pmi";
    CHECK((*find_task(both))->launcher == "mpiexec");
    both["HOROVOD_LAUNCHER"] = "none";
    CHECK_FALSE(*find_task(both));
    both["HOROVOD_LAUNCHER"] = "slurm";  // for the ranks of a later srun
    CHECK_FALSE(*find_task(both));
    both["HOROVOD_LAUNCHER"] = "mpirun";
    CHECK(find_task(both).error().message ==
          "HOROVOD_LAUNCHER='mpirun': expected ompi, pmix, pmi, torchrun, flux, jsrun, slurm or "
          "none");
}

TEST_CASE("the innermost launcher counts") {
    const auto task = find_task({{"SLURM_STEP_ID", "0"},
                                 {"SLURM_PROCID", "1"},
                                 {"SLURM_STEP_NUM_TASKS", "2"},
                                 {"OMPI_COMM_WORLD_RANK", "3"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"}});

    CHECK((*task)->rank == 3);
}

TEST_CASE("an impossible place is refused with the variable") {
    const auto error_of = [](const hvd::Environment& environment) {
        const auto task = find_task(environment);
        REQUIRE_FALSE(task);
        return task.error().message;
    };
    CHECK(error_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}) == "PMI_RANK=2 is not below PMI_SIZE=2");
    CHECK(error_of({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}) ==
          "PMI_RANK='x' must be a number from 0");
    CHECK(error_of({{"PMI_RANK", "1"}}) == "PMI_SIZE is missing, it must be a number from 1");
}

TEST_CASE("an mpirun is known by its name") {
    CHECK(is_mpirun("mpirun"));
    CHECK(is_mpirun("/usr/bin/mpiexec.hydra"));
    CHECK_FALSE(is_mpirun("mpirun_rsh.py"));
    CHECK_FALSE(is_mpirun("python3"));
}
