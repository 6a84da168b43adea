// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/launcher_record.hpp"

#include "collectives/launch_contract/external_launch.hpp"
#include "collectives/launch_contract/launch_env.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

using hvd::Environment;
using hvd::coll::decode_external_launch;
using hvd::coll::has_launch_contract;
using hvd::coll::innermost_environment;
using hvd::coll::kEnvLauncherVariables;
using hvd::coll::Launcher;
using hvd::coll::record_launcher_variables;

namespace {

Environment mpirun(const std::string& job, const std::string& rank, const std::string& size) {
    return {{"OMPI_COMM_WORLD_RANK", rank},
            {"OMPI_COMM_WORLD_SIZE", size},
            {"PMIX_NAMESPACE", job},
            {"PMIX_RANK", rank}};
}

Environment hydra(const std::string& connection, const std::string& rank) {
    return {{"PMI_RANK", rank}, {"PMI_SIZE", "2"}, {"PMI_FD", connection}};
}

Environment torchrun(const std::string& id = "none") {
    return {{"RANK", "1"},
            {"WORLD_SIZE", "2"},
            {"LOCAL_RANK", "1"},
            {"LOCAL_WORLD_SIZE", "2"},
            {"MASTER_PORT", "29500"},
            {"TORCHELASTIC_RUN_ID", id}};
}

Environment srun(const std::string& step) {
    return {{"SLURM_JOB_ID", "7"},
            {"SLURM_STEP_ID", step},
            {"SLURM_PROCID", "1"},
            {"SLURM_STEP_NUM_TASKS", "2"}};
}

std::string record_of(const Environment& environment) {
    return record_launcher_variables(
        [&](std::string_view name) { return hvd::find(environment, name); });
}

/// A rank of horovodrun with what an outer launcher, or the mpirun of --mpi, has left.
Environment rank_with(const Environment& outer) {
    Environment rank{{"HOROVOD_RANK", "0"},         {"HOROVOD_SIZE", "2"},
                     {"HOROVOD_AGENT_SOCKET", "a"}, {"HOROVOD_CONTROLLER", "gloo"},
                     {"HOROVOD_LEASE", "9"},        {"RANK", "0"},
                     {"WORLD_SIZE", "2"},           {"MASTER_PORT", "4000"}};
    rank.insert(outer.begin(), outer.end());
    rank.emplace(kEnvLauncherVariables, record_of(rank));
    return rank;
}

Environment inside(const Environment& outer, Environment inner) {
    inner.insert(outer.begin(), outer.end());
    return inner;
}

Launcher launcher_of(const Environment& environment) {
    const auto launch = decode_external_launch(innermost_environment(environment));
    INFO((launch ? "" : launch.error().message));
    REQUIRE(launch);
    return launch->launcher;
}

/// The variables that a rank of horovodrun may have of outer launchers; each launcher sets its
/// variables once more inside.
const std::vector<Environment>& outer_launchers() {
    static const std::vector<Environment> all = {
        {}, mpirun("1", "0", "2"), hydra("8", "0"), torchrun(), srun("0")};
    return all;
}

const std::vector<std::pair<Environment, Launcher>>& inner_launchers() {
    static const std::vector<std::pair<Environment, Launcher>> all = {
        {mpirun("2", "0", "2"), Launcher::ompi},
        {hydra("9", "0"), Launcher::pmi},
        {torchrun("other"), Launcher::torchrun},
        {srun("1"), Launcher::slurm},
        {{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}}, Launcher::flux},
        {{{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "2"}}, Launcher::jsrun}};
    return all;
}

}  // namespace

TEST_CASE("what horovodrun left to a rank is of no launcher inside") {
    for (const auto& outer : outer_launchers()) {
        const auto rank = rank_with(outer);

        CHECK(innermost_environment(rank) == rank);
        CHECK(launcher_of(rank) == Launcher::horovodrun);
    }
}

TEST_CASE("a launcher inside of a rank counts, whatever horovodrun left to the rank") {
    for (const auto& outer : outer_launchers()) {
        for (const auto& [inner, launcher] : inner_launchers()) {
            const auto task = inside(rank_with(outer), inner);
            CAPTURE(record_of(outer), describe(launcher));

            CHECK(launcher_of(task) == launcher);
            CHECK_FALSE(has_launch_contract(innermost_environment(task)));
        }
    }
}

TEST_CASE("a task inside of a rank keeps its own variables and the user's") {
    const auto outer = mpirun("1", "0", "2");

    const auto left = innermost_environment(inside(rank_with(outer), hydra("9", "0")));

    CHECK(left == inside({{"HOROVOD_LEASE", "9"}}, hydra("9", "0")));
}

TEST_CASE("a job's name tells two launchers whose ranks are numbered alike") {
    const auto rank = rank_with(mpirun("1", "0", "2"));

    const auto left = innermost_environment(inside(rank, mpirun("2", "0", "2")));

    CHECK(left == inside({{"HOROVOD_LEASE", "9"}}, mpirun("2", "0", "2")));
}

TEST_CASE("a PMI server tells two launchers with the very same variables") {
    auto rank = rank_with(hydra("8", "0"));
    rank[std::string(kEnvLauncherVariables)] =
        record_launcher_variables([&](std::string_view name) { return hvd::find(rank, name); }, 70);

    CHECK(innermost_environment(rank, 70) == rank);
    CHECK(innermost_environment(rank) == rank);  // its descriptor was closed
    CHECK(innermost_environment(rank, 90) == inside({{"HOROVOD_LEASE", "9"}}, hydra("8", "0")));
}

TEST_CASE("a variable that is gone, or an MPI that has started alone, is no launcher") {
    auto rank = rank_with(mpirun("1", "0", "2"));
    rank.erase("OMPI_COMM_WORLD_RANK");
    const Environment alone{
        {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "5"}, {"OMPI_MCA_ess", "singleton"}};

    CHECK(launcher_of(rank) == Launcher::horovodrun);
    CHECK(launcher_of(inside(rank_with({}), alone)) == Launcher::horovodrun);
    CHECK(launcher_of(inside(rank_with({}), {{"MASTER_PORT", "5000"}, {"RANK", "3"}})) ==
          Launcher::horovodrun);
}

TEST_CASE("the launcher that HOROVOD_LAUNCHER names keeps its variables") {
    auto task = inside(rank_with(mpirun("1", "0", "2")), torchrun());
    task["HOROVOD_LAUNCHER"] = "ompi";

    CHECK(launcher_of(task) == Launcher::ompi);
    CHECK_FALSE(has_launch_contract(innermost_environment(task)));
}

TEST_CASE("any text is a value of a record") {
    const Environment environment{{"TORCHELASTIC_RUN_ID", "a;b=c\xC3\xA9 %"}, {"PATH", "/bin"}};

    CHECK(record_of(environment) == "TORCHELASTIC_RUN_ID=a%3Bb%3Dc%C3%A9%20%25");
    CHECK(record_of({}).empty());
    const auto rank = rank_with(environment);
    CHECK(innermost_environment(rank) == rank);
}

TEST_CASE("a record that nobody wrote so changes nothing but what it does not say") {
    Environment rank{{"HOROVOD_RANK", "0"}, {"HOROVOD_AGENT_SOCKET", "a"}};
    for (const auto* text : {"", ";;", "x", "=", "PMI_RANK"}) {
        rank.insert_or_assign(std::string(kEnvLauncherVariables), text);
        CHECK(innermost_environment(rank) == rank);
    }
}
