// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/print.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

using hvd::launch::AgentWay;
using hvd::launch::HostPlan;
using hvd::launch::LaunchPlan;
using hvd::launch::print_command;
using hvd::launch::print_environments;
using hvd::launch::print_json;
using hvd::launch::print_text;
using hvd::launch::ProcessSpec;
using hvd::launch::Values;

namespace {

LaunchPlan plan() {
    ProcessSpec first{
        .rank = 0,
        .local_rank = 0,
        .local_size = 2,
        .cross_rank = 0,
        .cross_size = 1,
        .gpus = {{.index = 1, .uuid = "GPU-b", .name = "", .memory_bytes = 0, .cpus = {}}},
        .cpus = {0, 1, 4},
        .env = {{"HOROVOD_RANK", "0"}},
        .cwd = {},
        .argv = {}};
    ProcessSpec second = first;
    second.rank = 1;
    second.local_rank = 1;
    second.gpus.clear();
    second.cpus.clear();
    second.env["HOROVOD_RANK"] = "1";
    HostPlan host;
    host.host = "localhost";
    host.starter = "local";
    host.slots = 4;
    host.ranks_env = {{"NOTE", "it's"}};
    host.ranks = {first, second};
    LaunchPlan plan;
    plan.mode = "native";
    plan.np = 2;
    plan.job = {.id = "j",
                .env = {{"HOME", "/root"}},
                .ranks_env = {{"HOROVOD_SIZE", "2"}, {"NOTE", "weaker"}},
                .cwd = "/data",
                .argv = {"python3", "train.py", "a b"}};
    plan.hosts = {host};
    return plan;
}

}  // namespace

TEST_CASE("the plan for a person has a line per rank and says the rest once") {
    CHECK(print_text(plan()) ==
          "2 ranks, native mode, on localhost (4 slots, local)\n"
          "rank  host       local  cross  GPUs  CPUs\n"
          "0     localhost  0/2    0/1    1     0-1,4\n"
          "1     localhost  1/2    0/1    -     any\n"
          "command: python3 train.py 'a b'\n"
          "directory: /data\n"
          "environment, on top of horovodrun's own:\n"
          "  HOROVOD_SIZE=2\n"
          "  NOTE='it'\\''s'\n"
          "  HOROVOD_RANK=0 (rank 0; differs from rank to rank)\n");
}

TEST_CASE("a log gets the plan without values of variables and arguments") {
    auto by_mpi = plan();
    auto& launcher = by_mpi.hosts.front().launchers.emplace_back();
    launcher.env = {{"ARGUMENTS", "s3cret"}};
    launcher.argv = {"mpirun", "-x", "s3cret"};
    by_mpi.launcher_file.emplace().path = "/tmp/a";
    by_mpi.launcher_file->text = "s3cret";

    CHECK(print_text(by_mpi, {}, Values::hidden) ==
          "2 ranks, native mode, on localhost (4 slots, local)\n"
          "rank  host       local  cross  GPUs  CPUs\n"
          "0     localhost  0/2    0/1    1     0-1,4\n"
          "1     localhost  1/2    0/1    -     any\n"
          "started by: mpirun (with 2 arguments)\n"
          "which reads /tmp/a\n"
          "command: python3 (with 2 arguments)\n"
          "directory: /data\n"
          "environment, on top of horovodrun's own:\n"
          "  HOROVOD_SIZE\n"
          "  NOTE\n"
          "  HOROVOD_RANK (rank 0; differs from rank to rank)\n");
    CHECK(print_command({"a b"}, Values::hidden) == "'a b'");
    CHECK(print_command({"cat", "x"}, Values::hidden) == "cat (with 1 argument)");
}

TEST_CASE("the plan for a program has the documented fields and no others") {
    CHECK(print_json(plan()) == R"({
  "version": 1,
  "mode": "native",
  "np": 2,
  "hosts": [
    {
      "host": "localhost",
      "slots": 4,
      "starter": "local"
    }
  ],
  "ranks": [
    {
      "rank": 0,
      "host": "localhost",
      "local_rank": 0,
      "local_size": 2,
      "cross_rank": 0,
      "cross_size": 1,
      "gpus": [
        {
          "index": 1,
          "uuid": "GPU-b"
        }
      ],
      "cpus": [
        0,
        1,
        4
      ],
      "env": {
        "HOROVOD_RANK": "0",
        "HOROVOD_SIZE": "2",
        "NOTE": "it's"
      },
      "cwd": "/data",
      "argv": [
        "python3",
        "train.py",
        "a b"
      ]
    },
    {
      "rank": 1,
      "host": "localhost",
      "local_rank": 1,
      "local_size": 2,
      "cross_rank": 0,
      "cross_size": 1,
      "gpus": [],
      "cpus": [],
      "env": {
        "HOROVOD_RANK": "1",
        "HOROVOD_SIZE": "2",
        "NOTE": "it's"
      },
      "cwd": "/data",
      "argv": [
        "python3",
        "train.py",
        "a b"
      ]
    }
  ],
  "agents": []
}
)");
}

TEST_CASE("both forms of the plan say how the agents were started") {
    const std::vector<AgentWay> agents{{.host = "a", .way = "a child of horovodrun"},
                                       {.host = "b", .way = "ssh b"}};

    CHECK_THAT(print_text(plan(), agents),
               Catch::EndsWith("agents:\n  a: a child of horovodrun\n  b: ssh b\n"));
    CHECK_THAT(print_json(plan(), agents), Catch::EndsWith(R"(  "agents": [
    {
      "host": "a",
      "way": "a child of horovodrun"
    },
    {
      "host": "b",
      "way": "ssh b"
    }
  ]
}
)"));
}

TEST_CASE("the environments of ranks are told without what may be a secret") {
    auto job = plan();
    job.job.env = {{"NCCL_DEBUG", "INFO"},
                   {"HOROVOD_JOIN_TOKEN", "s3cret"},
                   {"LC_ALL", "C"},
                   {"LC_GITHUB_PAT", "s3cret"},
                   {"PWD", "/home"},
                   {"PYTHON_DB_DSN", "s3cret"},
                   {"SLURM_db_password", "s3cret"},
                   {"TF_VAR_db", "s3cret"},
                   {"UCX_URL", "https://me:s3cret@there"}};
    job.hosts.front().ranks_env = {{"LC_ALL", "en"}, {"PATHS", "s3cret"}};
    job.hosts.front().inherits_env = true;

    const auto told = nlohmann::json::parse(
        print_environments(job, {{"LC_ALL", "de"}, {"PATH", "/bin"}, {"WANDB_API_KEY", "s3cret"}}));

    CHECK(told == nlohmann::json::parse(R"({
        "version": 1,
        "job_id": "j",
        "hosts": [{"host": "localhost",
                   "env": {"HOROVOD_JOIN_TOKEN": null, "HOROVOD_SIZE": "2", "LC_ALL": "en",
                           "LC_GITHUB_PAT": null, "NCCL_DEBUG": "INFO", "NOTE": null,
                           "PATH": "/bin", "PATHS": null, "PWD": "/home", "PYTHON_DB_DSN": null,
                           "SLURM_db_password": null, "TF_VAR_db": null, "UCX_URL": null,
                           "WANDB_API_KEY": null}}],
        "ranks": [{"rank": 0, "host": "localhost", "env": {"HOROVOD_RANK": "0"}},
                  {"rank": 1, "host": "localhost", "env": {"HOROVOD_RANK": "1"}}]})"));
}

TEST_CASE("bytes that are no UTF-8 do not stop the plan from being printed") {
    auto odd = plan();
    odd.job.argv[2] = "\xff";

    CHECK_THAT(print_json(odd), Catch::Contains("\"\xEF\xBF\xBD\""));
}

TEST_CASE("the line that starts the ranks is shown with the variables set for it") {
    auto by_mpi = plan();
    ProcessSpec launcher;
    launcher.env = {{"HYDRA_LAUNCHER_EXTRA_ARGS", "-p 2222 -i /a b/key"}, {"I_MPI_PIN", "off"}};
    launcher.argv = {"mpiexec.hydra", "-np", "2"};
    by_mpi.hosts.front().launchers = {launcher};

    CHECK(print_text(by_mpi).find("\nstarted by: env HYDRA_LAUNCHER_EXTRA_ARGS='-p 2222 -i /a "
                                  "b/key' I_MPI_PIN=off mpiexec.hydra -np 2\n") !=
          std::string::npos);
    by_mpi.hosts.front().launchers.front().env.clear();
    CHECK(print_text(by_mpi).find("\nstarted by: mpiexec.hydra -np 2\n") != std::string::npos);
}
