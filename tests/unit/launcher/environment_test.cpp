// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/environment.hpp"

#include "launcher/model/launch_plan.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>

using hvd::Environment;
using hvd::coll::LaunchContract;
using hvd::launch::added_environment;
using hvd::launch::check_env_set;
using hvd::launch::EnvironmentOptions;
using hvd::launch::host_variables;
using hvd::launch::HostPlan;
using hvd::launch::job_variables;
using hvd::launch::JobPlan;
using hvd::launch::portable_environment;
using hvd::launch::ProcessSpec;
using hvd::launch::rank_variables;
using hvd::launch::shared_environment;

namespace {

/// The variables of the only rank of a job.
Environment planned(const EnvironmentOptions& options,
                    const Environment& gpus = {},
                    const Environment& own = {}) {
    const auto shared = shared_environment(options, own);
    const LaunchContract contract{
        .topology = {}, .hostname = "h", .job_id = std::string(32, '0'), .agent_socket = "s"};
    JobPlan job;
    job.ranks_env = job_variables(options, shared,
                                  {.contract = contract,
                                   .master_address = "127.0.0.1",
                                   .master_port = 0,
                                   .is_one_host = true});
    HostPlan host;
    host.ranks_env = host_variables(options, shared, {.contract = contract, .cpus = 3});
    ProcessSpec rank;
    rank.env =
        rank_variables(options, shared, {.topology = {}, .cpus = std::nullopt, .gpus = gpus});
    return added_environment(job, host, rank);
}

}  // namespace

TEST_CASE("ranks share the caller's environment, but not what a job around it told its ranks") {
    EnvironmentOptions options;
    const Environment own = {{"HOME", "/root"},
                             {"HOROVOD_RANK", "3"},
                             {"HOROVOD_AGENT_SOCKET", "outer"},
                             {"HOROVOD_LAUNCHER_VARIABLES", "RANK=3"},
                             {"TORCHELASTIC_RUN_ID", "outer"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"HOROVOD_FUSION_THRESHOLD", "0"}};

    CHECK(shared_environment(options, own) ==
          Environment{{"HOME", "/root"}, {"HOROVOD_FUSION_THRESHOLD", "0"}});
}

TEST_CASE("flag --env-clean passes on only what --env-pass selects") {
    EnvironmentOptions options;
    const Environment own = {
        {"HOME", "/root"}, {"NCCL_DEBUG", "1"}, {"NCCL", "2"}, {"PATH", "/bin"}};
    options.is_clean = true;
    CHECK(shared_environment(options, own).empty());

    options.pass = {"NCCL_*", "PATH"};
    CHECK(shared_environment(options, own) == Environment{{"NCCL_DEBUG", "1"}, {"PATH", "/bin"}});
}

TEST_CASE("defaults give way to what the caller has") {
    EnvironmentOptions options;
    const auto defaults = planned(options);
    CHECK(defaults.at("OMP_NUM_THREADS") == "3");
    CHECK(defaults.at("PYTHONUNBUFFERED") == "1");
    CHECK(defaults.at("HOROVOD_CPU_OPERATIONS") == "gloo");
    CHECK(defaults.at("NCCL_SOCKET_IFNAME") == "lo");

    const Environment own = {{"OMP_NUM_THREADS", "8"},
                             {"PYTHONUNBUFFERED", ""},
                             {"HOROVOD_CPU_OPERATIONS", "shm"},
                             {"NCCL_SOCKET_IFNAME", "eth0"}};
    const auto kept = planned(options, {}, own);
    for (const auto& [name, value] : own) {
        CAPTURE(name);
        CHECK_FALSE(kept.contains(name));
    }
}

TEST_CASE("the job's own variables replace those of a launcher around it") {
    EnvironmentOptions options;
    const Environment own = {
        {"RANK", "7"}, {"MASTER_ADDR", "other"}, {"HOROVOD_CONTROLLER", "mpi"}};

    const auto environment = planned(options, {}, own);

    CHECK(environment.at("RANK") == "0");
    CHECK(environment.at("MASTER_ADDR") == "127.0.0.1");
    CHECK(environment.at("HOROVOD_CONTROLLER") == "gloo");
    CHECK_FALSE(environment.contains("MASTER_PORT"));  // none was found free
}

TEST_CASE("flag --env wins over tunables, defaults and torch's variables") {
    EnvironmentOptions options;
    options.tunables = {{"HOROVOD_CYCLE_TIME", "5"}, {"HOROVOD_CACHE_CAPACITY", "1"}};
    options.set = {{"HOROVOD_CYCLE_TIME", "9"},
                   {"OMP_NUM_THREADS", "1"},
                   {"MASTER_PORT", "29500"},
                   {"LOCAL_RANK", "7"},
                   {"MINE", "x"}};

    const auto environment = planned(options);

    CHECK(environment.at("HOROVOD_CYCLE_TIME") == "9");
    CHECK(environment.at("HOROVOD_CACHE_CAPACITY") == "1");
    CHECK(environment.at("OMP_NUM_THREADS") == "1");
    CHECK(environment.at("MASTER_PORT") == "29500");
    CHECK(environment.at("LOCAL_RANK") == "7");
    CHECK(environment.at("MINE") == "x");
}

TEST_CASE("a rank's own GPUs are a part of the mask that --env gives") {
    EnvironmentOptions options;
    options.set = {{"CUDA_VISIBLE_DEVICES", "2,3"}};

    CHECK(planned(options, {{"CUDA_VISIBLE_DEVICES", "3"}}).at("CUDA_VISIBLE_DEVICES") == "3");
}

TEST_CASE("flag --env may not break the contract between launcher and rank") {
    const auto refused = check_env_set({{"HOROVOD_RANK", "3"}});

    REQUIRE_FALSE(refused);
    CHECK(refused.error().message ==
          "--env HOROVOD_RANK=3: horovodrun sets this for each rank; leave it out");
    CHECK_FALSE(check_env_set({{"HOROVOD_LAUNCHER_VARIABLES", ""}}));
    CHECK(check_env_set({{"HOROVOD_CYCLE_TIME", "3"}, {"RANK", "1"}}));
}

TEST_CASE("another machine gets the caller's variables but those of this login and machine") {
    EnvironmentOptions options;
    options.pass = {"XDG_CONFIG_HOME"};
    const Environment shared{
        {"HOME", "/home/me"},          {"DATA", "/data"},         {"SSH_AUTH_SOCK", "/tmp/s"},
        {"CUDA_VISIBLE_DEVICES", "0"}, {"TERM", "xterm"},         {"OMPI_COMM_WORLD_RANK", "3"},
        {"PATH", "/usr/bin"},          {"SLURM_PROCID", "1"},     {"SLURM_JOB_ID", "7"},
        {"HOME_OF_DATA", "/d"},        {"XDG_CONFIG_HOME", "/c"}, {"XDG_RUNTIME_DIR", "/r"}};

    CHECK(portable_environment(options, shared) == Environment{{"DATA", "/data"},
                                                               {"PATH", "/usr/bin"},
                                                               {"SLURM_JOB_ID", "7"},
                                                               {"HOME_OF_DATA", "/d"},
                                                               {"XDG_CONFIG_HOME", "/c"}});
}

TEST_CASE("settings of MPI travel to other hosts, but not those of an mpirun's task") {
    const auto portable = [](const Environment& environment) {
        return portable_environment({}, environment);
    };
    const Environment settings{{"OMPI_MCA_btl", "tcp"}, {"PRTE_MCA_rmaps", "ppr"}};

    CHECK(portable(settings) == settings);
    for (const auto* task : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
        auto inside = settings;
        inside.emplace(task, "0");
        CHECK(portable(inside).empty());
    }
}
