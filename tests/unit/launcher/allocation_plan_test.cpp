// SPDX-License-Identifier: Apache-2.0
//
// The plans in allocations of batch systems: their variables as they were recorded, and
// the plans of golden/allocations.txt. When a difference is meant, copy what the test wrote over
// the golden file, and let the reviewer read the difference.
#include "collectives/base/text.hpp"
#include "launcher/hosts/allocation.hpp"
#include "launcher/hosts/task.hpp"
#include "launcher/plan/planner.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/launcher/plan_on.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): a test of this namespace

namespace {

struct Recorded {
    std::string name;
    hvd::Environment environment;
    std::string file_variable;  // that names a file with `file`; or empty
    std::string file;
};

std::vector<Recorded> recorded() {
    return {
        {"LSF, bsub -n 6 -R 'span[ptile=4]'",
         {{"LSB_JOBID", "4711"},
          {"LSB_BATCH_JID", "4711"},
          {"LSB_QUEUE", "normal"},
          {"LSB_DJOB_NUMPROC", "6"},
          {"LSB_MAX_NUM_PROCESSORS", "6"},
          {"LSB_MCPU_HOSTS", "hosta 4 hostb 2 "},
          {"LSB_HOSTS", "hosta hosta hosta hosta hostb hostb"},
          {"LSF_BINDIR", "/opt/lsf/bin"}},
         "LSB_DJOB_HOSTFILE",
         "hosta\nhosta\nhosta\nhosta\nhostb\nhostb\n"},
        {"LSF with CSM, bsub -nnodes 2, whose first host is the launch node",
         {{"LSB_JOBID", "271828"},
          {"CSM_ALLOCATION_ID", "99"},
          {"LSB_MCPU_HOSTS", "batch5 1 c05n01 42 c05n02 42 "},
          {"LSB_SUB_HOST", "login1"}},
         "",
         ""},
        {"LSF of old, by LSB_HOSTS alone",
         {{"LSB_JOBID", "8"}, {"LSB_HOSTS", "hosta hosta hostb"}},
         "",
         ""},
        {"PBS, qsub -l select=2:ncpus=4:mpiprocs=2",
         {{"PBS_JOBID", "123.server"},
          {"PBS_ENVIRONMENT", "PBS_BATCH"},
          {"PBS_NUM_PPN", "2"},
          {"PBS_O_WORKDIR", "/home/me"},
          {"NCPUS", "4"}},
         "PBS_NODEFILE",
         "n001.site\nn001.site\nn002.site\nn002.site\n"},
        {"Torque, qsub -l nodes=1:ppn=3+1:ppn=1",
         {{"PBS_JOBID", "77.server"}, {"PBS_NP", "4"}},
         "PBS_NODEFILE",
         "n1\nn1\nn1\nn2\n"},
        {"Grid Engine, qsub -pe mpi 6",
         {{"JOB_ID", "55"}, {"NSLOTS", "6"}, {"NHOSTS", "2"}, {"PE", "mpi"}, {"QUEUE", "all.q"}},
         "PE_HOSTFILE",
         "exec1.site 4 all.q@exec1.site UNDEFINED\nexec2.site 2 all.q@exec2.site UNDEFINED\n"},
        {"Kubernetes, MPIJob for Open MPI, slotsPerWorker: 2",
         {{"HOSTNAME", "job-launcher-x7k2p"},
          {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
          {"OMPI_MCA_orte_keep_fqdn_hostnames", "true"},
          {"OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"}},
         "OMPI_MCA_orte_default_hostfile",
         "job-worker-0.job.default.svc slots=2\njob-worker-1.job.default.svc slots=2\n"},
        {"Kubernetes, MPIJob of v1, whose pods kubexec.sh reaches",
         {{"HOSTNAME", "job-launcher-x7k2p"},
          {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
          {"OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"}},
         "OMPI_MCA_orte_default_hostfile",
         "job-worker-0 slots=2\njob-worker-1 slots=1\n"},
        {"Kubernetes, MPIJob for Intel MPI",
         {{"HOSTNAME", "job-launcher-x7k2p"},
          {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
          {"I_MPI_HYDRA_BOOTSTRAP", "ssh"}},
         "I_MPI_HYDRA_HOST_FILE",
         "job-worker-0.job.default.svc:2\njob-worker-1.job.default.svc:2\n"},
        {"Flux, one task of flux run -N2 -n4",
         {{"FLUX_JOB_ID", "f2hgS5fB"},
          {"FLUX_JOB_NNODES", "2"},
          {"FLUX_JOB_SIZE", "4"},
          {"FLUX_TASK_RANK", "3"},
          {"FLUX_TASK_LOCAL_ID", "1"},
          {"FLUX_URI", "local:///run/flux/local"}},
         "",
         ""},
        {"LSF, one task of jsrun -n 4",
         {{"LSB_JOBID", "271828"},
          {"JSM_NAMESPACE_RANK", "2"},
          {"JSM_NAMESPACE_SIZE", "4"},
          {"JSM_NAMESPACE_LOCAL_RANK", "0"},
          {"JSM_NAMESPACE_LOCAL_SIZE", "2"},
          {"LSB_MCPU_HOSTS", "batch5 1 c05n01 42 c05n02 42 "},
          {"CSM_ALLOCATION_ID", "99"}},
         "",
         ""},
    };
}

std::string plan_of(const Allocation& allocation) {
    LaunchRequest request;
    request.hosts.list = allocation.hosts;
    request.command = {"train"};
    std::vector<HostFacts> facts;
    for (const auto& host : request.hosts.list) {
        facts.emplace_back();
        facts.back().hostname = host.name;
        facts.back().cpus.resize(44);
        std::iota(facts.back().cpus.begin(), facts.back().cpus.end(), 0);
    }
    const auto planned = hvd::test::plan_on(request, facts, "ssh");
    if (!planned) {
        return "  refused: " + planned.error().message + "\n";
    }
    std::string text =
        "  " + allocation.name + ", " + std::to_string(planned->plan.np) + " ranks\n";
    for (const auto& host : planned->plan.hosts) {
        text += "  " + host.host + " slots " + std::to_string(host.slots) + ": ranks " +
                std::to_string(host.ranks.front().rank) + "-" +
                std::to_string(host.ranks.back().rank) + ", the first local 0/" +
                std::to_string(host.ranks.front().local_size) + " cross " +
                std::to_string(host.ranks.front().cross_rank) + "/" +
                std::to_string(host.ranks.front().cross_size) + " cpus " +
                hvd::format_ranges(host.ranks.front().cpus) + "\n";
    }
    return text;
}

/// A task runs the command as its rank; else the allocation is planned for.
std::string describe(const Recorded& example, const hvd::test::TempDir& folder) {
    auto environment = example.environment;
    if (!example.file_variable.empty()) {
        environment[example.file_variable] = folder.write("hosts", example.file).string();
    }
    const auto task = find_task(environment);
    if (!task) {
        return "  refused: " + task.error().message + "\n";
    }
    if (*task) {
        return "  rank " + std::to_string((*task)->rank) + " of " + std::to_string((*task)->size) +
               " under " + std::string((*task)->launcher) + ", local rank " +
               std::to_string((*task)->local_rank) + "\n";
    }
    const auto allocation = find_allocation(environment);
    if (!allocation) {
        return "  refused: " + allocation.error().message + "\n";
    }
    return *allocation ? plan_of(**allocation) : "  no allocation\n";
}

}  // namespace

TEST_CASE("the plans in the allocations of batch systems are the golden ones") {
    const hvd::test::TempDir folder;
    std::string plans;
    for (const auto& example : recorded()) {
        plans += example.name + "\n" + describe(example, folder);
    }
    std::ostringstream expected;
    expected << std::ifstream(HVD_GOLDEN_FOLDER "/allocations.txt").rdbuf();

    if (plans != expected.str()) {
        std::ofstream("allocations.txt") << plans;
    }
    CHECK(plans == expected.str());
}
