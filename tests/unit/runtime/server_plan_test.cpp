// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/server_plan.hpp"

#include "runtime/bootstrap/arrange.hpp"
#include "runtime/bootstrap/store_credentials.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

using hvd::Environment;
using hvd::coll::ExternalLaunch;
using hvd::coll::Launcher;
using hvd::coll::Topology;
using hvd::coll::store::Authentication;
using hvd::coll::store::Member;
using hvd::rt::arrange;
using hvd::rt::find_credentials;
using hvd::rt::first_host;
using hvd::rt::plan_server;

namespace {

ExternalLaunch task(Launcher launcher, int rank = 0) {
    return {.launcher = launcher,
            .rank = rank,
            .size = 4,
            .local_rank = rank % 2,
            .local_size = 2,
            .node = rank / 2,
            .job = "job"};
}

Member member(int rank, int local_rank, int local_size, const std::string& node) {
    return {.rank = rank,
            .size = 5,
            .local_rank = local_rank,
            .local_size = local_size,
            .pid = 1,
            .host = node,
            .node = node};
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("the first host of a list is found") {
    CHECK(first_host("h1") == "h1");
    CHECK(first_host("h[2,4,7-9]") == "h2");
    CHECK(first_host("h[02-04,7],k1") == "h02");
    CHECK(first_host("a[1-2]b[3-4]") == "a1b3");
    CHECK(first_host("node-7.cluster,x") == "node-7.cluster");
    for (const auto* wrong : {"", ",", "h[1-2", "h[]", "h]", "a b"}) {
        CAPTURE(wrong);
        CHECK_FALSE(first_host(wrong));
    }
}

TEST_CASE("torchrun's ranks meet where rank 0 is") {
    const Environment environment{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};

    const auto first = plan_server(environment, task(Launcher::torchrun, 0), {}, 0);
    const auto third = plan_server(environment, task(Launcher::torchrun, 2), {}, 0);
    const auto next = plan_server(environment, task(Launcher::torchrun, 2), {}, 1);

    REQUIRE(first);
    CHECK(first->host == "node1");
    CHECK(first->is_server);
    CHECK_FALSE(third->is_server);
    CHECK(third->ports == first->ports);
    CHECK(third->job == "job#0");
    CHECK(next->job == "job#1");
    CHECK(next->ports != first->ports);
    CHECK(contains(plan_server({}, task(Launcher::torchrun), {}, 0).error().message,
                   "MASTER_ADDR is not set: a world of 4 ranks on several hosts cannot connect "
                   "under torchrun"));
}

TEST_CASE("Slurm's ranks meet on the first node of the step, wherever rank 0 is") {
    const Environment environment{{"SLURM_STEP_NODELIST", "h[3-4]"}};
    auto elsewhere = task(Launcher::slurm, 0);
    elsewhere.node = 1;
    auto keeper = task(Launcher::slurm, 2);
    keeper.node = 0;

    CHECK(plan_server(environment, task(Launcher::slurm), {}, 0)->host == "h3");
    CHECK(plan_server(environment, task(Launcher::slurm), {}, 0)->is_server);
    CHECK_FALSE(plan_server(environment, task(Launcher::slurm, 1), {}, 0)->is_server);
    CHECK_FALSE(plan_server(environment, elsewhere, {}, 0)->is_server);
    CHECK(plan_server(environment, keeper, {}, 0)->is_server);
    CHECK(contains(
        plan_server({{"SLURM_STEP_NODELIST", "h["}}, task(Launcher::slurm), {}, 0).error().message,
        "SLURM_STEP_NODELIST='h[' is no list of hosts"));
}

TEST_CASE("ports are few, different and below those of outgoing connections") {
    for (int generation = 0; generation < 50; ++generation) {
        auto ports =
            plan_server({{"MASTER_ADDR", "a"}}, task(Launcher::torchrun), {}, generation)->ports;
        CHECK(ports.size() == 8);
        CHECK(std::ranges::all_of(ports, [](int port) { return port >= 20000 && port < 32768; }));
        std::ranges::sort(ports);
        CHECK(std::ranges::adjacent_find(ports) == ports.end());
    }
    const auto allowed = plan_server({{"MASTER_ADDR", "a"}}, task(Launcher::torchrun),
                                     {.first = 4000, .last = 4002}, 0);
    CHECK(allowed->ports == std::vector<std::uint16_t>{4000, 4001, 4002});
}

TEST_CASE("under other launchers the user gives the address") {
    const auto plan = plan_server({}, task(Launcher::jsrun), {}, 0);

    REQUIRE_FALSE(plan);
    CHECK(plan.error().message.find("MASTER_ADDR is not set") != std::string::npos);
    CHECK(plan_server({{"MASTER_ADDR", "h1"}}, task(Launcher::ompi), {}, 0)->host == "h1");
}

TEST_CASE("where a rank stands follows from what all say") {
    // Two ranks on a, three on b, numbered round robin.
    const std::vector<Member> membership{member(0, 0, 2, "a"), member(1, 0, 3, "b"),
                                         member(2, 1, 2, "a"), member(3, 1, 3, "b"),
                                         member(4, 2, 3, "b")};

    CHECK(arrange(membership, 0).value() == Topology{0, 5, 0, 2, 0, 2});
    CHECK(arrange(membership, 2).value() == Topology{2, 5, 1, 2, 0, 2});
    CHECK(arrange(membership, 3).value() == Topology{3, 5, 1, 3, 1, 2});
    CHECK(arrange(membership, 4).value() == Topology{4, 5, 2, 3, 0, 1});
}

TEST_CASE("ranks that are not told their local ranks are numbered in order") {
    const std::vector<Member> membership{member(0, -1, -1, "a"), member(1, -1, -1, "b"),
                                         member(2, -1, -1, "a")};

    CHECK(arrange(membership, 2).value() == Topology{2, 3, 1, 2, 0, 1});
}

TEST_CASE("local ranks that do not fit together are refused") {
    const auto refusal = [](const std::vector<Member>& membership) {
        const auto topology = arrange(membership, 0);
        REQUIRE_FALSE(topology);
        return topology.error().message;
    };

    CHECK(contains(refusal({member(0, 0, 2, "a"), member(1, 0, 2, "a")}),
                   "rank 1 (pid 1 on host a) was told that it is local rank 0 of 2, but is number "
                   "1 of the 2 ranks that came from there"));
    CHECK(contains(refusal({member(0, 0, 2, "a"), member(1, 0, 1, "b")}), "local rank 0 of 2"));
}

TEST_CASE("a key file must be private and long enough") {
    const hvd::test::TempDir folder;
    const auto good = folder.write("good", std::string(32, 'k'));
    const auto open = folder.write("open", std::string(32, 'k'));
    const auto brief = folder.write("brief", "short");
    namespace fs = std::filesystem;
    fs::permissions(good, fs::perms::owner_read);
    fs::permissions(brief, fs::perms::owner_read);
    fs::permissions(open, fs::perms::owner_read | fs::perms::group_read);
    const auto with = [](const fs::path& path) {
        return find_credentials({{"HOROVOD_JOB_KEY_FILE", path.string()}}, task(Launcher::slurm));
    };

    CHECK(with(good)->kind == Authentication::key);
    CHECK(with(good)->secret.size() == 32);
    CHECK(contains(with(open).error().message, "chmod 600"));
    CHECK(contains(with(brief).error().message, "at least 16 bytes"));
    CHECK(contains(with(folder.path() / "none").error().message, "No such file"));
    CHECK(find_credentials({}, task(Launcher::torchrun))->kind == Authentication::none);
    CHECK(contains(find_credentials({{"HOROVOD_MUNGE_SOCKET", "/nowhere"}}, task(Launcher::slurm))
                       .error()
                       .message,
                   "HOROVOD_JOB_KEY_FILE"));
}
