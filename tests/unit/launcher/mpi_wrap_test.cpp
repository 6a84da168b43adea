// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"
#include "collectives/launch_contract/mpi_job.hpp"
#include "launcher/mpi/wrap_plan.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace)

namespace {

constexpr const char* kId = "0123456789abcdef0123456789abcdef";

ProcessSpec rank_of(int rank) {
    return {.rank = rank,
            .gpus = {},
            .cpus = {rank},
            .env = {{"HOROVOD_RANK", std::to_string(rank)}},
            .cwd = {},
            .argv = {}};
}

HostPlan host_of(const std::string& name, int slots, std::vector<ProcessSpec> ranks) {
    return {.host = name,
            .starter = name == "a" ? "local" : "ssh",
            .slots = slots,
            .agent_socket = "socket",
            .env = {},
            .ranks_env = {},
            .ranks = std::move(ranks)};
}

LaunchPlan native() {
    return {.mode = "native",
            .np = 3,
            .job = {.id = kId,
                    .env = {{"PATH", "/bin"}},
                    .ranks_env = {{"SECRET", "x y"}},
                    .cwd = "/data",
                    .argv = {"./train"}},
            .hosts = {host_of("a", 2, {rank_of(0), rank_of(1)}), host_of("idle", 1, {}),
                      host_of("b", 1, {rank_of(2)})}};
}

hvd::Result<LaunchPlan> wrapped_plan(LaunchPlan plan, const LaunchRequest& request = {}) {
    return mpi::wrap_plan(std::move(plan), request, {},
                          {.kind = mpi::Kind::open_mpi_4, .shim = "/opt/hvd-agent"});
}

}  // namespace

TEST_CASE("mpirun starts the planned ranks where they were planned") {
    const auto plan = wrapped_plan(native());

    REQUIRE(plan);
    CHECK(plan->mode == "mpi");
    REQUIRE(plan->hosts.front().launchers.size() == 1);
    const auto& launcher = plan->hosts.front().launchers.front();
    CHECK(launcher.rank == kLauncherRank);
    CHECK(launcher.cwd == "/data");
    CHECK(hvd::quote_words(launcher.argv) ==
          "mpirun --allow-run-as-root --tag-output --stdin none -np 3 -H a:2,b:1 --bind-to none "
          "--map-by slot -x HOROVOD_MPI_JOB -x PATH -x SECRET /opt/hvd-agent exec -- ./train");
    CHECK(plan->hosts[0].ranks == native().hosts[0].ranks);
    CHECK(plan->hosts[2].launchers.empty());
    CHECK(plan->hosts[2].shim_socket == hvd::coll::shim_socket(kId, 2));
}

TEST_CASE("no value of a variable is on the line") {
    const auto plan = wrapped_plan(native());

    REQUIRE(plan);
    CHECK(std::ranges::none_of(plan->hosts.front().launchers.front().argv, [](const auto& word) {
        return word.find("x y") != std::string::npos || word.find(kId) != std::string::npos;
    }));
}

TEST_CASE("the job and its places travel in one variable") {
    const auto plan = wrapped_plan(native());

    REQUIRE(plan);
    const auto& text = plan->job.ranks_env.at("HOROVOD_MPI_JOB");
    CHECK(text == std::string(kId) + ";a:2;idle:0;b:1");
    const auto job = hvd::coll::decode_mpi_job(text);
    REQUIRE(job);
    CHECK(encode(*job) == text);
    CHECK(job->size() == 3);
    CHECK(job->host_of(1) == 0);
    CHECK(job->host_of(2) == 2);
}

TEST_CASE("a host with more ranks than slots is oversubscribed") {
    auto plan = native();
    plan.hosts[2].slots = 0;

    const auto wrapped = wrapped_plan(std::move(plan));

    REQUIRE(wrapped);
    const auto& argv = wrapped->hosts.front().launchers.front().argv;
    CHECK(std::ranges::find(argv, "--oversubscribe") != argv.end());
}

TEST_CASE("on one host mpirun passes on by itself what it has") {
    auto plan = native();
    plan.hosts.resize(1);

    const auto wrapped = wrapped_plan(std::move(plan));

    REQUIRE(wrapped);
    const auto& argv = wrapped->hosts.front().launchers.front().argv;
    CHECK(std::ranges::find(argv, "PATH") == argv.end());
    CHECK(std::ranges::find(argv, "SECRET") != argv.end());
}

TEST_CASE("horovodrun's standard input is mpirun's, which gives it to the rank") {
    auto plan = native();
    plan.hosts[2].stdin_rank = 2;

    const auto wrapped = wrapped_plan(std::move(plan));

    REQUIRE(wrapped);
    CHECK(wrapped->hosts[0].stdin_rank == kLauncherRank);
    CHECK(wrapped->hosts[2].stdin_rank == -1);
    const auto& argv = wrapped->hosts.front().launchers.front().argv;
    CHECK(*std::next(std::ranges::find(argv, "--stdin")) == "2");
}

TEST_CASE("a job that is malformed is refused with its text") {
    const auto text = GENERATE(as<std::string>{}, "", "id", "id;", "id;a", "id;a:x", "id;:2",
                               "id;a:-1", "id;a:0", ";a:2");
    CAPTURE(text);

    const auto job = hvd::coll::decode_mpi_job(text);

    REQUIRE_FALSE(job);
    CHECK(job.error().message.find("HOROVOD_MPI_JOB='" + text + "'") == 0);
}

TEST_CASE("the ssh of mpirun gets the port of the other hosts") {
    const auto line = [](std::vector<Host> hosts, std::optional<int> port) {
        LaunchRequest request;
        request.hosts.list = std::move(hosts);
        request.ssh.port = port;
        return hvd::quote_words(
            wrapped_plan(native(), request)->hosts.front().launchers.front().argv);
    };
    using Catch::Contains;

    CHECK_THAT(line({{"a"}, {"b"}}, {}), !Contains("plm_rsh_args"));
    CHECK_THAT(line({{"a"}, {"b"}}, 2222), Contains("plm_rsh_args '-p 2222'"));
    CHECK_THAT(line({{"a"}, {"b", {}, {}, 23}}, {}), Contains("plm_rsh_args '-p 23'"));
    CHECK_THAT(line({{"a", {}, {}, 22}, {"b", {}, {}, 23}, {"c"}}, 23),
               Contains("plm_rsh_args '-p 23'"));
}
