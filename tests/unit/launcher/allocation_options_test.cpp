// SPDX-License-Identifier: Apache-2.0
//
// The meaning of a command line inside of a batch system's allocation.
#include "collectives/base/text.hpp"
#include "launcher/cli/options.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/launcher/command_lines.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

using hvd::Environment;
using hvd::launch::error;
using hvd::launch::Host;
using hvd::launch::request;

namespace {

/// A private PATH.
class FolderWithSrun {
public:
    FolderWithSrun() {
        const auto srun = folder_.write("srun", "");
        std::filesystem::permissions(srun, std::filesystem::perms::owner_all);
    }

    [[nodiscard]] std::string path() const { return folder_.path().string(); }

private:
    hvd::test::TempDir folder_;
};

}  // namespace

TEST_CASE("inside of an allocation its hosts are taken, unless others are written") {
    const Environment lsf{{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "a 4 b 2"}};

    CHECK(request("train", lsf).hosts.list == std::vector<Host>{{"a", 4}, {"b", 2}});
    CHECK(request("-H ^a train", lsf).hosts.list == std::vector<Host>{{"b", 2}});
    CHECK(request("-H c train", lsf).hosts.list == std::vector<Host>{{"c"}});
    CHECK(request("train", lsf).ssh.remote_shell == std::vector<std::string>{"blaunch"});
    CHECK(request("--remote-shell r train", lsf).ssh.remote_shell == std::vector<std::string>{"r"});
    CHECK(request("-H c train", lsf).ssh.remote_shell.empty());
    CHECK(request("--verbose train", lsf).report.notes ==
          std::vector<std::string>{"the hosts are those of LSF job 7"});
}

TEST_CASE("of Open MPI's agents only Kubeflow's takes the place of SSH, as in the original") {
    const auto shell = [](const std::string& agent, const std::string& more = "") {
        const Environment environment{{"OMPI_MCA_plm_rsh_agent", agent}};
        return hvd::join(request("-H c" + more + " train", environment).ssh.remote_shell, " ");
    };

    CHECK(shell("/etc/mpi/kubexec.sh") == "/etc/mpi/kubexec.sh");
    CHECK(shell("/etc/mpi/kubexec.sh", " --remote-shell r") == "r");
    CHECK(shell("ssh").empty());
    CHECK(shell("ssh : rsh").empty());
    CHECK(shell("/opt/kubexec.sh").empty());
}

TEST_CASE("what is for SSH is refused where another program reaches the hosts") {
    const Environment kubeflow{{"OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"}};
    const Environment lsf{{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "a 4 b 2"}};
    using Catch::Contains;

    CHECK_THAT(error("-p 2222 -H c train", kubeflow),
               Contains("-p 2222 is for SSH, but '/etc/mpi/kubexec.sh' reaches the hosts") &&
                   Contains("leave it out, or put what that program needs into --remote-shell"));
    CHECK_THAT(error("-i key train", lsf), Contains("-i key is for SSH, but 'blaunch' reaches"));
    CHECK_THAT(error("--remote-shell r -H ssh://c:2222 train"),
               Contains("the port 2222 of host c is for SSH, but 'r' reaches"));
    CHECK(error("--remote-shell r -H me@c train").empty());  // the command gets it
    CHECK(error("--remote-shell /usr/bin/ssh -p 2222 -H ssh://c:7 train").empty());
}

TEST_CASE("inside of a Slurm allocation srun starts the agents, unless the user knows better") {
    const FolderWithSrun folder;
    const Environment slurm{{"PATH", folder.path()},
                            {"SLURM_JOB_ID", "42"},
                            {"SLURM_JOB_NODELIST", "n[1-2]"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_TASKS_PER_NODE", "2(x2)"}};
    auto of_groups = slurm;
    of_groups["SLURM_HET_SIZE"] = "1";
    of_groups["SLURM_JOB_NODELIST_HET_GROUP_0"] = "n1";
    of_groups["SLURM_TASKS_PER_NODE_HET_GROUP_0"] = "4";

    CHECK(request("train", slurm).hosts.slurm_job->id == "42");
    CHECK(request("-np 4 train", slurm).hosts.slurm_job->id == "42");
    CHECK_FALSE(request("train", slurm).limits.allocation_end);
    auto with_end = slurm;
    with_end["SLURM_JOB_END_TIME"] = "1700000000";
    CHECK(request("train", with_end).limits.allocation_end == 1'700'000'000);
    CHECK_FALSE(request("-H n1:4 train", slurm).hosts.slurm_job);
    CHECK_FALSE(request("--remote-shell r train", slurm).hosts.slurm_job);
    CHECK(request("--mpi train", slurm).hosts.slurm_job->id == "42");
    CHECK_FALSE(request("train", slurm).hosts.slurm_job->is_heterogeneous);
    CHECK(request("train", of_groups).hosts.slurm_job->is_heterogeneous);
}

TEST_CASE("without srun a Slurm allocation gives hosts and nothing more") {
    const FolderWithSrun folder;
    const Environment slurm{{"PATH", "/nowhere:" + folder.path() + "/none"},
                            {"SLURM_JOB_ID", "42"},
                            {"SLURM_JOB_NODELIST", "n[1-2]"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_TASKS_PER_NODE", "2(x2)"},
                            {"SLURM_GPUS_PER_TASK", "1"}};

    CHECK(request("--mpi train", slurm).hosts.list == std::vector<Host>{{"n1", 2}, {"n2", 2}});
    CHECK_FALSE(request("train", slurm).hosts.slurm_job);
}

TEST_CASE("a rank gets the GPUs that a Slurm job has for each task") {
    const FolderWithSrun folder;
    Environment slurm{{"PATH", folder.path()},           {"SLURM_JOB_ID", "42"},
                      {"SLURM_JOB_NODELIST", "n[1-2]"},  {"SLURM_NTASKS", "4"},
                      {"SLURM_TASKS_PER_NODE", "2(x2)"}, {"SLURM_GPUS_PER_TASK", "1"}};

    CHECK(request("train", slurm).hosts.slurm_job->components.front().has_gpus_by_task);
    CHECK(request("train", slurm).binding.gpus_per_rank == 1);
    slurm["SLURM_GPUS_PER_TASK"] = "a100:2,v100:1";
    CHECK(request("train", slurm).binding.gpus_per_rank == 3);
    CHECK(request("train", slurm).binding.may_lack_gpus);
    CHECK_FALSE(request("--gpus-per-rank 1 train", slurm).binding.may_lack_gpus);
    CHECK(request("--gpus-per-rank 1 train", slurm).binding.gpus_per_rank == 1);
    CHECK_THAT(error("--mpi train", slurm), Catch::Contains("leave --mpi out, or ask for GPUs"));
    slurm["SLURM_GPUS_PER_TASK"] = "some";
    CHECK_THAT(error("train", slurm),
               Catch::StartsWith("SLURM_GPUS_PER_TASK=some: this is no number"));
    slurm["SLURM_GPUS_PER_TASK"] = "1";
    slurm.erase("SLURM_NTASKS");
    CHECK_THAT(error("train", slurm), Catch::Contains("how many tasks there are (SLURM_NTASKS)"));
    slurm.erase("SLURM_GPUS_PER_TASK");
    CHECK_FALSE(request("train", slurm).hosts.slurm_job->components.front().has_gpus_by_task);
}

TEST_CASE("each component of a heterogeneous Slurm job keeps its nodes and GPUs") {
    const FolderWithSrun folder;
    Environment slurm{{"PATH", folder.path()},
                      {"SLURM_JOB_ID", "42"},
                      {"SLURM_HET_SIZE", "2"},
                      {"SLURM_JOB_NODELIST", "n1"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_JOB_NODELIST_HET_GROUP_0", "n1"},
                      {"SLURM_NTASKS_HET_GROUP_0", "2"},
                      {"SLURM_TASKS_PER_NODE_HET_GROUP_0", "2"},
                      {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]"},
                      {"SLURM_NTASKS_HET_GROUP_1", "3"},
                      {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "2(x2)"},
                      {"SLURM_GPUS_PER_TASK_HET_GROUP_1", "2"}};

    const auto all = request("train", slurm);

    CHECK(all.hosts.list == std::vector<Host>{{"n1", 2}, {"n2", 2}, {"n3", 1}});
    CHECK(all.binding.gpus_per_rank == 2);
    REQUIRE(all.hosts.slurm_job->components.size() == 2);
    CHECK(all.hosts.slurm_job->components[0].nodes == std::vector<std::string>{"n1"});
    CHECK_FALSE(all.hosts.slurm_job->components[0].has_gpus_by_task);
    CHECK(all.hosts.slurm_job->components[1].nodes == std::vector<std::string>{"n2", "n3"});
    CHECK(all.hosts.slurm_job->components[1].has_gpus_by_task);
    CHECK_THAT(error("--mpi train", slurm), Catch::StartsWith("--mpi: mpirun knows the first"));
    slurm["SLURM_GPUS_PER_TASK_HET_GROUP_0"] = "1";
    CHECK_THAT(error("train", slurm), Catch::Contains("(1 and 2); say with --gpus-per-rank"));
    CHECK(request("--gpus-per-rank 1 train", slurm).binding.gpus_per_rank == 1);
    slurm["SLURM_JOB_NODELIST_HET_GROUP_0"] = "n2";
    CHECK_THAT(error("train", slurm), Catch::StartsWith("node n2 is in two components of Slurm"));
}

TEST_CASE("more ranks than a batch system gave tasks are refused with both numbers") {
    const Environment slurm{{"SLURM_JOB_ID", "42"},
                            {"SLURM_JOB_NODELIST", "n[1-2]"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_TASKS_PER_NODE", "2(x2)"}};

    CHECK_THAT(error("-np 5 train", slurm),
               Catch::StartsWith("-np 5 is more than the 4 tasks of Slurm job 42 (n1:2,n2:2)"));
    CHECK_THAT(error("-np 3 -H ^n1 train", slurm),
               Catch::StartsWith("-np 3 is more than the 2 tasks of Slurm job 42 (n2:2)"));
}
