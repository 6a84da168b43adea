// SPDX-License-Identifier: Apache-2.0
//
// horovodrun inside of LSF jobs: their variables as they were recorded, and what
// --dry-run prints of them in golden/lsf.txt. When a difference is meant, copy what the test wrote
// over the golden file, and let the reviewer read the difference.
#include "collectives/base/text.hpp"
#include "launcher/mpi/wrap_plan.hpp"
#include "launcher/plan/planner.hpp"
#include "launcher/plan/print.hpp"
#include "launcher/remote/command/ssh_command.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/launcher/command_lines.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): the namespace under test
using hvd::Environment;

namespace {

/// bsub -nnodes 2 of a machine whose nodes have 4 cores for jobs, under CSM; without it; and of
/// nodes that differ.
const Environment kCsm{{"LSB_JOBID", "271828"},
                       {"LSB_BATCH_JID", "271828"},
                       {"CSM_ALLOCATION_ID", "99"},
                       {"LSB_MCPU_HOSTS", "batch5 1 c05n01 4 c05n02 4 "},
                       {"LSB_HOSTS", "batch5 c05n01 c05n01 c05n01 c05n01 c05n02"},
                       {"LSB_SUB_HOST", "login1"},
                       {"LSF_BINDIR", "/opt/lsf/bin"}};
const Environment kPlain{{"LSB_JOBID", "4711"},
                         {"LSB_BATCH_JID", "4711"},
                         {"LSB_QUEUE", "normal"},
                         {"LSB_DJOB_NUMPROC", "6"},
                         {"LSB_MCPU_HOSTS", "hosta 4 hostb 2 "},
                         {"LSB_HOSTS", "hosta hosta hosta hosta hostb hostb"}};

struct Example {
    std::string flags;  // before the command, `train`
    const Environment* job = nullptr;
    std::string here;  // where horovodrun runs
    int gpus = 0;      // of each host
    int first_cpu = 0;
};

std::vector<Example> examples() {
    return {{"", &kPlain, "hosta"},
            {"-H ^hosta --remote-shell ssh", &kPlain, "hosta"},
            {"", &kCsm, "batch5"},
            {"", &kCsm, "batch5", 2},
            {"-np 5", &kCsm, "batch5", 2},
            {"--gpu-bind none", &kCsm, "batch5", 2},
            {"--jsrun", &kCsm, "batch5"},
            {"--jsrun", &kCsm, "batch5", 2},
            {"--jsrun -np 6", &kCsm, "batch5"},
            {"--jsrun -np 3", &kCsm, "batch5", 2},
            {"--jsrun -H c05n02:2 --bind-to none", &kCsm, "batch5"},
            {"--jsrun -H ^c05n01", &kCsm, "batch5"},
            {"--jsrun -np 4 --binding-args=--rs_per_host=2 --mpi-args=-X=1 --tcp --stdin 0", &kCsm,
             "batch5"},
            {"--jsrun", &kPlain, "hosta"},
            {"--jsrun -H c05n02:2", &kCsm, "batch5", 0, 8},
            {"--jsrun --gpu-bind none -H c05n01:2,c05n02:2", &kCsm, "batch5", 2},
            {"--jsrun --gpu-bind none -H c05n02:1", &kCsm, "batch5", 2},
            {"--jsrun --tcp", &kCsm, "batch5"},
            {"--jsrun --tcp --mpi-args=--smpiargs=-gpu", &kCsm, "batch5"},
            {"--jsrun --mpi-args=-M --mpi-args=-gpu", &kCsm, "batch5"}};
}

HostFacts facts_of(const Host& host, const Example& example) {
    HostFacts facts;
    facts.hostname = host.name;
    facts.cpus.resize(16);  // 4 threads of each core
    std::iota(facts.cpus.begin(), facts.cpus.end(), example.first_cpu);
    for (int index = 0; index < example.gpus && host.slots != 0; ++index) {
        facts.gpus.push_back({.index = index,
                              .uuid = "GPU-" + std::to_string(index),
                              .name = "V100",
                              .memory_bytes = 1,
                              .cpus = {}});
    }
    return facts;
}

/// The steps of launch.cpp, with these hosts in the place of agents.
hvd::Result<LaunchPlan> plan_of(const Example& example, const LaunchRequest& request) {
    auto hosts = request.hosts.list;
    const bool is_here = std::ranges::find(hosts, example.here, &Host::name) != hosts.end();
    if (request.mpi.is_jsrun && !is_here) {
        hosts.push_back({.name = example.here, .slots = 0});
    }
    std::vector<PlanHost> planned_hosts;
    for (const auto& host : hosts) {
        planned_hosts.push_back(
            {.host = host,
             .starter = host.name == example.here ? "local" : request.ssh.remote_shell.front(),
             .facts = facts_of(host, example)});
    }
    HVD_TRY(auto planned,
            make_plan(request,
                      {.cwd = "/work", .job_id = std::string(32, '0'), .environment = *example.job},
                      planned_hosts));
    if (!request.mpi.is_jsrun) {
        return std::move(planned.plan);
    }
    return mpi::wrap_plan(
        std::move(planned.plan), request, planned_hosts,
        {.kind = mpi::Kind::jsrun, .shim = "/opt/hvd-agent", .resource_folder = "/tmp"});
}

/// What --dry-run prints, without the variables of the ranks: they are those of any other job.
std::string describe(const Example& example, const std::string& path) {
    auto environment = *example.job;
    environment["PATH"] = path;
    const auto flags = example.flags + (example.flags.empty() ? "" : " ");
    const auto request = hvd::launch::request(flags + "train", environment);
    std::string text = "horovodrun " + flags + "train\n";
    text += "  in " + example.job->at("LSB_MCPU_HOSTS") + "on " + example.here +
            (example.gpus == 0 ? "" : ", GPUs " + std::to_string(example.gpus)) + "\n";
    const auto plan = plan_of(example, request);
    if (!plan) {
        return text + "  refused: " + plan.error().message + "\n";
    }
    const auto whole = print_text(*plan);
    const auto printed = whole.substr(0, whole.find("command: "));
    for (const auto line : hvd::split(printed, '\n')) {
        text += line.empty() ? "" : "  " + std::string(line) + "\n";
    }
    for (const auto& host : plan->hosts) {
        if (host.starter == "local") {
            continue;
        }
        const auto line =
            remote_argv({.name = host.host}, {.options = request.ssh}, "exec /bin/sh -c 'LINE'");
        text += "  agent of " + host.host + ": " + hvd::quote_words(line) + "\n";
    }
    return text;
}

class FolderWithJsrun {
public:
    FolderWithJsrun() {
        const auto jsrun = folder_.write("jsrun", "");
        std::filesystem::permissions(jsrun, std::filesystem::perms::owner_all);
    }

    [[nodiscard]] std::string path() const { return folder_.path().string(); }

private:
    hvd::test::TempDir folder_;
};

}  // namespace

TEST_CASE("the plans and lines inside of LSF jobs are the golden ones") {
    const FolderWithJsrun folder;
    std::string plans;
    for (const auto& example : examples()) {
        plans += describe(example, folder.path());
    }
    std::ostringstream expected;
    expected << std::ifstream(HVD_GOLDEN_FOLDER "/lsf.txt").rdbuf();

    if (plans != expected.str()) {
        std::ofstream("lsf.txt") << plans;
    }
    CHECK(plans == expected.str());
}

TEST_CASE("what jsrun cannot do in an LSF job is refused with value, place and remedy") {
    const FolderWithJsrun folder;
    auto job = kCsm;
    job["PATH"] = folder.path();
    const auto [flags, sentence] = GENERATE(table<std::string, std::string>({
        {"-np 9", "-np 9 is more than the 8 tasks of LSF job 271828 (c05n01:4,c05n02:4)"},
        {"-H other:2",
         "--jsrun: host other is not in LSF job 271828 (c05n01:4,c05n02:4); leave it out, or ask "
         "LSF for it"},
        {"-H batch5", "--jsrun: host batch5 is not in LSF job 271828"},
        {"-H c05n02:5",
         "--jsrun: c05n02:5 is more than the 4 slots that LSF job 271828 has there; write fewer, "
         "or ask LSF for more"},
        {"--listen a:1 -H c05n01", "--jsrun takes the hosts of its LSF job; leave --listen out"},
        {"-i key", "-i key is for SSH, but 'blaunch' reaches the hosts"},
    }));

    CHECK_THAT(error("--jsrun " + flags + " train", job), Catch::StartsWith(sentence));
}

TEST_CASE("jsrun needs its program and a job of LSF") {
    auto job = kCsm;
    job["PATH"] = "/nowhere";
    CHECK_THAT(error("--jsrun train", job),
               Catch::StartsWith("--jsrun: there is no jsrun in PATH=/nowhere; add its folder"));
    CHECK_THAT(error("--jsrun -np 2 train", {{"SLURM_JOB_ID", "4"}, {"SLURM_JOB_NODELIST", "n1"}}),
               Catch::Contains("inside of an LSF job, and this is Slurm job 4; start horovodrun"));
}

TEST_CASE("jsrun gives standard input to rank 0 alone") {
    const FolderWithJsrun folder;
    auto job = kCsm;
    job["PATH"] = folder.path();
    const Example example{"", &kCsm, "batch5"};

    const auto refused = plan_of(example, request("--jsrun --stdin 1 train", job));

    REQUIRE_FALSE(refused);
    CHECK(refused.error().message ==
          "jsrun cannot give standard input to another rank than 0; use --stdin 0, or leave "
          "--jsrun out");
}

TEST_CASE("jsrun's line has no value of a variable") {
    const FolderWithJsrun folder;
    auto job = kCsm;
    job["PATH"] = folder.path();
    const Example example{"", &kCsm, "batch5"};

    const auto plan = plan_of(example, request("--jsrun -np 6 --log-level debug train", job));

    REQUIRE(plan);
    const auto& argv = plan->hosts.back().launchers.at(0).argv;
    CHECK(std::ranges::find(argv, "HOROVOD_LOG_LEVEL") != argv.end());
    CHECK(std::ranges::none_of(argv, [](const std::string& word) {
        return word.find("debug") != std::string::npos || word.find("c05n0") != std::string::npos;
    }));
}

TEST_CASE("without a flag, jsrun starts nothing") {
    const FolderWithJsrun folder;
    auto job = kCsm;
    job["PATH"] = folder.path();

    const auto plain = request("train", job);

    CHECK_FALSE(plain.mpi.is_wanted);
    CHECK(plain.ssh.remote_shell == std::vector<std::string>{"blaunch"});
}
