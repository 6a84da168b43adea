// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/slurm_variables.hpp"

#include <catch2/catch.hpp>

using hvd::Environment;
using hvd::launch::is_of_slurm_node;
using hvd::launch::is_of_slurm_task;
using hvd::launch::srun_environment;
using hvd::launch::step_variables;

TEST_CASE("the variables of a task of Slurm are known") {
    for (const auto* name :
         {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID",
          "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_GPUS", "SRUN_DEBUG", "SLURM_SRUN_COMM_PORT",
          "SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "PMI_RANK", "PMIX_NAMESPACE"}) {
        CAPTURE(name);
        CHECK(is_of_slurm_task(name));
        CHECK_FALSE(is_of_slurm_node(name));
    }
    for (const auto* name : {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_JOB_NODELIST",
                             "SLURM_CPUS_PER_TASK", "SLURM_ARRAY_TASK_ID", "HOME"}) {
        CAPTURE(name);
        CHECK_FALSE(is_of_slurm_task(name));
        CHECK_FALSE(is_of_slurm_node(name));
    }
    CHECK(is_of_slurm_node("SLURMD_NODENAME"));
    CHECK(is_of_slurm_node("SLURM_CPUS_ON_NODE"));
}

TEST_CASE("an agent that srun started forgets its task and how its step is counted") {
    const Environment environment{
        {"SLURM_PROCID", "1"},       {"SLURM_NTASKS", "2"},
        {"SLURM_STEP_ID", "0"},      {"SRUN_DEBUG", "3"},
        {"PMI_RANK", "1"},           {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
        {"SLURM_JOB_ID", "42"},      {"SLURMD_NODENAME", "n1"},
        {"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_JOB_GPUS", "0"},
        {"HOME", "/root"},           {"CUDA_VISIBLE_DEVICES", "0,1"},
        {"SLURM_CONF", "/a/conf"}};

    CHECK(step_variables(environment) ==
          std::vector<std::string>{"PMI_RANK", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_NTASKS",
                                   "SLURM_PROCID", "SLURM_STEP_ID", "SRUN_DEBUG"});
}

TEST_CASE("what sbatch was asked for each task does not reach the srun of the agents") {
    const Environment environment{{"SLURM_GPUS_PER_TASK", "1"},
                                  {"SLURM_CPUS_PER_TASK", "2"},
                                  {"SRUN_CPUS_PER_TASK", "2"},
                                  {"SLURM_NTASKS", "8"},
                                  {"SLURM_EXPORT_ENV", "NONE"},
                                  {"SLURM_JOB_ID", "42"},
                                  {"SLURM_CONF", "/a/conf"},
                                  {"PATH", "/bin"},
                                  {"MARK", "kept"}};

    CHECK(srun_environment(environment) == Environment{{"MARK", "kept"},
                                                       {"PATH", "/bin"},
                                                       {"SLURM_CONF", "/a/conf"},
                                                       {"SLURM_JOB_ID", "42"}});
}
