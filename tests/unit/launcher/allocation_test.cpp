// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/allocation.hpp"

#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using Catch::Contains;
using hvd::Environment;
using hvd::launch::find_allocation;
using hvd::launch::Host;

namespace {

struct Example {
    std::string name;
    Environment environment;
    std::vector<Host> expected;
};

}  // namespace

TEST_CASE("outside of an allocation there is none") {
    const auto found = find_allocation({{"SLURM_CONF", "/etc/slurm.conf"}, {"LSB_JOBID", "4"}});

    REQUIRE(found);
    CHECK_FALSE(*found);
}

TEST_CASE("the variables of a batch system give its hosts") {
    const auto& example = GENERATE(values<Example>({
        {"Slurm job 42",  // sbatch --nodes=4 --ntasks=14
         {{"SLURM_JOB_ID", "42"},
          {"SLURM_JOB_NODELIST", "h[2,4,7-8]"},
          {"SLURM_NTASKS", "14"},
          {"SLURM_TASKS_PER_NODE", "4(x3),2"},
          {"SLURM_JOB_CPUS_PER_NODE", "4(x3),2"}},
         {{"h2", 4}, {"h4", 4}, {"h7", 4}, {"h8", 2}}},
        {"Slurm job 42",  // sbatch --nodes=2 --ntasks=3 --ntasks-per-node=2
         {{"SLURM_JOB_ID", "42"},
          {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_NTASKS", "3"},
          {"SLURM_TASKS_PER_NODE", "2(x2)"}},
         {{"n1", 2}, {"n2", 1}}},
        {"Slurm job 42",  // sbatch --nodes=2: a task a node is Slurm's word, not the user's
         {{"SLURM_JOB_ID", "42"},
          {"SLURM_JOB_NODELIST", "n01,gpu[1-1]"},
          {"SLURM_TASKS_PER_NODE", "1(x2)"}},
         {{"n01"}, {"gpu1"}}},
        {"Slurm job 43",  // sbatch --ntasks=3 : --nodes=1
         {{"SLURM_JOB_ID", "43"},
          {"SLURM_HET_SIZE", "2"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_JOB_NODELIST_HET_GROUP_0", "a1"},
          {"SLURM_TASKS_PER_NODE_HET_GROUP_0", "3"},
          {"SLURM_JOB_NODELIST_HET_GROUP_1", "b[1-2]"},
          {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "1(x2)"}},
         {{"a1", 3}, {"b1", 1}, {"b2", 1}}},
        {"LSF job 7",
         {{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "hostA 4 hostB 2 "}, {"LSB_HOSTS", "x"}},
         {{"hostA", 4}, {"hostB", 2}}},
        {"LSF job 7",
         {{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "batch 1 a 4 b 4"}, {"CSM_ALLOCATION_ID", "9"}},
         {{"a", 4}, {"b", 4}}},
        {"LSF job", {{"LSB_HOSTS", "a a b a"}}, {{"a", 3}, {"b", 1}}},
    }));
    CAPTURE(example.environment);

    const auto found = find_allocation(example.environment);

    REQUIRE(found);
    REQUIRE(*found);
    CHECK((*found)->name == example.name);
    CHECK((*found)->hosts == example.expected);
}

TEST_CASE("the file that a batch system names gives its hosts") {
    struct FileExample {
        std::string variable;
        std::string text;
        std::vector<Host> expected;
    };
    const auto& example = GENERATE(values<FileExample>({
        {"PBS_NODEFILE", "n1.site\nn1.site\nn2.site\nn1.site\n", {{"n1.site", 3}, {"n2.site", 1}}},
        {"PE_HOSTFILE", "n1 4 all.q@n1 UNDEFINED\nn2 2 all.q@n2 <NULL>\n", {{"n1", 4}, {"n2", 2}}},
        {"LSB_DJOB_HOSTFILE", "a\na\nb\n", {{"a", 2}, {"b", 1}}},
        {"OMPI_MCA_orte_default_hostfile",
         "job-worker-0.job slots=2\njob-worker-1.job slots=2\n",
         {{"job-worker-0.job", 2}, {"job-worker-1.job", 2}}},
        {"I_MPI_HYDRA_HOST_FILE", "job-worker-0:2\n", {{"job-worker-0", 2}}},
    }));
    const hvd::test::TempDir folder;
    const auto path = folder.write("hosts", example.text).string();
    CAPTURE(example.variable);

    const auto found =
        find_allocation({{example.variable, path}, {"KUBERNETES_SERVICE_HOST", "10.96.0.1"}});

    REQUIRE(found);
    REQUIRE(*found);
    CHECK((*found)->hosts == example.expected);
}

TEST_CASE("an impossible allocation is refused with its variable, and not replaced by less") {
    struct Wrong {
        Environment environment;
        std::string message;
    };
    const auto& example = GENERATE(values<Wrong>({
        {{{"SLURM_JOB_NODELIST", "n[1-"}}, "SLURM_JOB_NODELIST='n[1-': the closing ']'"},
        {{{"SLURM_JOB_NODELIST", ""}}, "SLURM_JOB_NODELIST='': a name is missing"},
        {{{"SLURM_JOB_NODELIST", "n[1-3]"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_TASKS_PER_NODE", "2(x2)"}},
         "SLURM_TASKS_PER_NODE='2(x2)': it must have a number of tasks for each of the 3 nodes"},
        {{{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "4(x)"}},
         "SLURM_TASKS_PER_NODE='4(x)'"},
        {{{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "4"}},
         "SLURM_TASKS_PER_NODE='': it must have"},
        {{{"SLURM_HET_SIZE", "two"}}, "SLURM_HET_SIZE='two'"},
        {{{"LSB_MCPU_HOSTS", "a 4 b"}}, "LSB_MCPU_HOSTS='a 4 b': it must have pairs"},
        {{{"LSB_MCPU_HOSTS", "a four"}}, "'four' is no number of slots"},
        {{{"PBS_NODEFILE", "/no/file"}},
         "PBS_NODEFILE=/no/file: No such file or directory; write the hosts with -H or -hostfile"},
        {{{"PE_HOSTFILE", "/no/file"}}, "PE_HOSTFILE=/no/file: No such"},
        {{{"LSB_DJOB_HOSTFILE", "/no/file"}}, "LSB_DJOB_HOSTFILE=/no/file: No such"},
        {{{"LSB_HOSTS", "a:4"}}, "'a:4' is not the name of one host"},
    }));
    CAPTURE(example.environment);

    const auto found = find_allocation(example.environment);

    REQUIRE_FALSE(found);
    CHECK_THAT(found.error().message, Contains(example.message));
}

TEST_CASE("the default host file of an MPI is no allocation outside of a pod of the mpi-operator") {
    for (const auto* variable :
         {"OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"}) {
        CAPTURE(variable);
        const auto found = find_allocation({{variable, "/etc/openmpi/openmpi-default-hostfile"}});

        REQUIRE(found);
        CHECK_FALSE(*found);
    }
    CHECK_FALSE(find_allocation({{"HYDRA_HOST_FILE", "/etc/mpi/hostfile"}}));  // which is not there
}

TEST_CASE("a host file of comments alone, as Debian's Open MPI has it, is no allocation in a pod") {
    const hvd::test::TempDir folder;
    const auto comments = folder.write("default", "# Copyright\n#\n\n  \n").string();
    const auto hosts = folder.write("hosts", "worker-0 slots=2\n").string();
    const Environment pod{{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                          {"OMPI_MCA_orte_default_hostfile", comments}};
    auto both = pod;
    both.emplace("HYDRA_HOST_FILE", hosts);

    const auto none = find_allocation(pod);
    const auto second = find_allocation(both);

    REQUIRE(none);
    CHECK_FALSE(*none);
    REQUIRE(second);
    REQUIRE(*second);
    CHECK((*second)->hosts == std::vector<Host>{{"worker-0", 2}});
}
