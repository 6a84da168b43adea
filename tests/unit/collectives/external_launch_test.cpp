// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/external_launch.hpp"

#include "collectives/base/process_ancestry.hpp"
#include "collectives/launch_contract/launcher_choice.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

using hvd::Environment;
using hvd::find_ancestor_without;
using hvd::coll::decode_external_launch;
using hvd::coll::decode_mpi_launch;
using hvd::coll::ExternalLaunch;
using hvd::coll::Launcher;

namespace {

// As `env` printed it in a task; what says nothing about ranks is left out.

Environment open_mpi() {
    return {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "4"},
            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
            {"OMPI_COMM_WORLD_NODE_RANK", "1"},  {"OMPI_UNIVERSE_SIZE", "4"},
            {"PMIX_NAMESPACE", "1888026625"},    {"PMIX_RANK", "1"}};
}

Environment hydra() {
    return {{"PMI_RANK", "0"},
            {"PMI_SIZE", "2"},
            {"PMI_FD", "8"},
            {"MPI_LOCALRANKID", "0"},
            {"MPI_LOCALNRANKS", "2"}};
}

Environment torchrun() {
    return {{"RANK", "3"},
            {"WORLD_SIZE", "4"},
            {"LOCAL_RANK", "1"},
            {"LOCAL_WORLD_SIZE", "2"},
            {"GROUP_RANK", "1"},
            {"GROUP_WORLD_SIZE", "2"},
            {"MASTER_ADDR", "10.0.0.1"},
            {"MASTER_PORT", "29500"},
            {"TORCHELASTIC_RUN_ID", "none"},
            {"TORCHELASTIC_RESTART_COUNT", "0"}};
}

Environment flux() {
    return {{"FLUX_JOB_ID", "f2zDzQfh"}, {"FLUX_JOB_NNODES", "1"}, {"FLUX_JOB_SIZE", "4"},
            {"FLUX_TASK_LOCAL_ID", "2"}, {"FLUX_TASK_RANK", "2"},  {"PMI_FD", "17"},
            {"PMI_RANK", "2"},           {"PMI_SIZE", "4"}};
}

Environment jsrun() {
    return {{"JSM_NAMESPACE_RANK", "5"},
            {"JSM_NAMESPACE_SIZE", "12"},
            {"JSM_NAMESPACE_LOCAL_RANK", "5"},
            {"JSM_NAMESPACE_LOCAL_SIZE", "6"},
            {"LSB_JOBID", "1234"}};
}

Environment slurm_allocation() {
    return {{"SLURM_JOB_ID", "7"},        {"SLURM_NNODES", "4"},  {"SLURM_NTASKS", "8"},
            {"SLURM_PROCID", "0"},        {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"},
            {"SLURM_TASKS_PER_NODE", "2"}};
}

Environment slurm() {
    auto step = slurm_allocation();
    step.insert_or_assign("SLURM_PROCID", "9");
    step.insert_or_assign("SLURM_LOCALID", "1");
    step.insert_or_assign("SLURM_NODEID", "2");
    step.emplace("SLURM_STEP_ID", "0");
    step.emplace("SLURM_STEP_NUM_TASKS", "10");
    step.emplace("SLURM_STEP_TASKS_PER_NODE", "4(x2),2");
    step.emplace("SLURM_STEP_NODELIST", "h[2,4,7]");
    return step;
}

/// `inner` in a task of `outer`: what both set is the inner one's.
Environment inside(const Environment& outer, Environment inner) {
    inner.insert(outer.begin(), outer.end());
    return inner;
}

Environment with(Environment environment, const std::string& name, const std::string& value) {
    environment.insert_or_assign(name, value);
    return environment;
}

Environment without(Environment environment, const std::string& name) {
    environment.erase(name);
    return environment;
}

Launcher launcher_of(const Environment& environment) {
    const auto launch = decode_external_launch(environment);
    INFO((launch ? "" : launch.error().message));
    REQUIRE(launch);
    return launch->launcher;
}

std::string refusal_of(const Environment& environment) {
    const auto launch = decode_external_launch(environment);
    REQUIRE_FALSE(launch);
    CHECK(launch.error().code == hvd::Errc::invalid_argument);
    return launch.error().message;
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("no launcher is a world of one") {
    CHECK(decode_external_launch({{"PATH", "/bin"}}).value() == ExternalLaunch{});
}

TEST_CASE("the variables of each launcher are read") {
    CHECK(decode_external_launch(open_mpi()).value() ==
          ExternalLaunch{.launcher = Launcher::ompi,
                         .rank = 1,
                         .size = 4,
                         .local_rank = 1,
                         .local_size = 4,
                         .job = "ompi:1888026625",
                         .job_entry = "PMIX_NAMESPACE=1888026625"});
    CHECK(decode_external_launch(hydra()).value() == ExternalLaunch{.launcher = Launcher::pmi,
                                                                    .rank = 0,
                                                                    .size = 2,
                                                                    .local_rank = 0,
                                                                    .local_size = 2,
                                                                    .job = "pmi:",
                                                                    .job_entry = "PMI_FD=8"});
    CHECK(decode_external_launch(without(hydra(), "PMI_FD"))->job_entry == "PMI_RANK=");
    CHECK(decode_external_launch(torchrun()).value() ==
          ExternalLaunch{.launcher = Launcher::torchrun,
                         .rank = 3,
                         .size = 4,
                         .local_rank = 1,
                         .local_size = 2,
                         .node = 1,
                         .job = "torchrun:none/0/29500",
                         .job_entry = "TORCHELASTIC_RUN_ID=none"});
    CHECK(decode_external_launch(flux()).value() ==
          ExternalLaunch{.launcher = Launcher::flux,
                         .rank = 2,
                         .size = 4,
                         .local_rank = 2,
                         .local_size = 4,
                         .job = "flux:f2zDzQfh",
                         .job_entry = "FLUX_JOB_ID=f2zDzQfh"});
    CHECK(decode_external_launch(jsrun()).value() == ExternalLaunch{.launcher = Launcher::jsrun,
                                                                    .rank = 5,
                                                                    .size = 12,
                                                                    .local_rank = 5,
                                                                    .local_size = 6,
                                                                    .job = "jsrun:1234",
                                                                    .job_entry = "LSB_JOBID=1234"});
    CHECK(decode_external_launch(slurm()).value() == ExternalLaunch{.launcher = Launcher::slurm,
                                                                    .rank = 9,
                                                                    .size = 10,
                                                                    .local_rank = 1,
                                                                    .local_size = 2,
                                                                    .node = 2,
                                                                    .job = "slurm:7/0",
                                                                    .job_entry = "SLURM_PROCID="});
}

TEST_CASE("of several launchers the innermost counts") {
    const std::vector<std::pair<Environment, Launcher>> order = {
        {open_mpi(), Launcher::ompi}, {hydra(), Launcher::pmi},   {torchrun(), Launcher::torchrun},
        {flux(), Launcher::flux},     {jsrun(), Launcher::jsrun}, {slurm(), Launcher::slurm}};

    for (std::size_t inner = 0; inner < order.size(); ++inner) {
        for (std::size_t outer = inner; outer < order.size(); ++outer) {
            CAPTURE(inner, outer);
            CHECK(launcher_of(inside(order[outer].first, order[inner].first)) ==
                  order[inner].second);
        }
    }
}

TEST_CASE("behind a horovodrun in front of a task that task's launcher counts") {
    const Environment told{{"HOROVOD_RANK", "1"}, {"HOROVOD_TASK_OF", "mpirun"}};

    CHECK(launcher_of(inside(told, open_mpi())) == Launcher::ompi);
    CHECK(launcher_of(inside(told, slurm())) == Launcher::slurm);
    CHECK(launcher_of(with(told, "HOROVOD_AGENT_SOCKET", "a")) == Launcher::horovodrun);
}

TEST_CASE("a Slurm allocation without a step starts nobody") {
    CHECK(launcher_of(slurm_allocation()) == Launcher::none);
    CHECK(decode_external_launch(inside(slurm_allocation(), open_mpi()))->size == 4);
}

TEST_CASE("PMI by the scheduler itself says nothing about a launcher further in") {
    auto task = slurm();
    task.emplace("PMI_RANK", "9");
    task.emplace("PMI_SIZE", "10");
    task.emplace("PMI_FD", "11");

    CHECK(launcher_of(task) == Launcher::slurm);
    CHECK(launcher_of(inside(task, torchrun())) == Launcher::torchrun);
    CHECK(launcher_of(inside(flux(), torchrun())) == Launcher::torchrun);
    CHECK(launcher_of(inside(task, hydra())) == Launcher::pmi);
    // An mpiexec of the same size and rank.
    const auto same = inside(task, {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "10"}});
    CHECK(launcher_of(same) == Launcher::pmi);
}

TEST_CASE("PMIx without another launcher's variables is a launcher that keeps the size to itself") {
    const Environment task{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-h1-7@1"}};

    CHECK(decode_external_launch(task).value() ==
          ExternalLaunch{.launcher = Launcher::pmix,
                         .rank = 1,
                         .size = 0,
                         .job = "pmix:prterun-h1-7@1",
                         .job_entry = "PMIX_NAMESPACE=prterun-h1-7@1"});
    CHECK(launcher_of(inside(slurm(), task)) == Launcher::pmix);
    CHECK(contains(refusal_of(without(task, "PMIX_NAMESPACE")), "PMIX_NAMESPACE is not set"));

    const Environment of_slurm{{"PMIX_RANK", "9"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}};
    CHECK(launcher_of(inside(slurm(), of_slurm)) == Launcher::slurm);
    CHECK(launcher_of(inside(inside(slurm(), of_slurm), torchrun())) == Launcher::torchrun);
    CHECK(launcher_of(with(flux(), "PMIX_RANK", "2")) == Launcher::flux);
    CHECK(launcher_of(with(jsrun(), "PMIX_RANK", "5")) == Launcher::jsrun);
}

TEST_CASE("HOROVOD_LAUNCHER names the launcher") {
    const auto all =
        inside(inside(inside(flux(), slurm()), torchrun()), inside(jsrun(), open_mpi()));

    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", "ompi")) == Launcher::ompi);
    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", "pmi")) == Launcher::pmi);
    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", " torchrun ")) == Launcher::torchrun);
    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", "flux")) == Launcher::flux);
    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", "jsrun")) == Launcher::jsrun);
    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", "slurm")) == Launcher::slurm);
    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", "none")) == Launcher::none);
    CHECK(launcher_of(with(all, "HOROVOD_LAUNCHER", "")) == Launcher::ompi);
    CHECK(refusal_of(with(all, "HOROVOD_LAUNCHER", "mpirun")) ==
          "HOROVOD_LAUNCHER='mpirun': expected ompi, pmix, pmi, torchrun, flux, jsrun, slurm or "
          "none");
    // Also where its variables are not there.
    CHECK(contains(refusal_of({{"HOROVOD_LAUNCHER", "slurm"}}), "SLURM_PROCID is not set"));
    for (const auto word : hvd::coll::kLauncherNames) {
        CAPTURE(word);
        if (word != "none") {
            CHECK(contains(refusal_of({{"HOROVOD_LAUNCHER", std::string(word)}}), "is not set"));
        }
    }
}

TEST_CASE("HOROVOD_CONTROLLER leaves the launchers of MPI programs, or the others") {
    const auto both = inside(torchrun(), open_mpi());
    const auto srun_pmi = with(slurm(), "PMI_FD", "11");

    CHECK(launcher_of(with(both, "HOROVOD_CONTROLLER", "auto")) == Launcher::ompi);
    CHECK(launcher_of(with(both, "HOROVOD_CONTROLLER", "MPI")) == Launcher::ompi);
    CHECK(launcher_of(with(both, "HOROVOD_CONTROLLER", "gloo")) == Launcher::torchrun);
    CHECK(launcher_of(with(srun_pmi, "HOROVOD_CONTROLLER", "mpi")) == Launcher::slurm);
    CHECK(launcher_of({{"HOROVOD_RANK", "0"}, {"HOROVOD_CONTROLLER", "mpi"}}) ==
          Launcher::horovodrun);
    CHECK(refusal_of({{"HOROVOD_CONTROLLER", "nccl"}}) ==
          "HOROVOD_CONTROLLER='nccl': expected mpi, gloo or auto");
}

TEST_CASE("HOROVOD_CONTROLLER does not make worlds of one of the ranks of a larger one") {
    CHECK(refusal_of(with(open_mpi(), "HOROVOD_CONTROLLER", "gloo")) ==
          "HOROVOD_CONTROLLER=gloo leaves out Open MPI's mpirun, which has started this process as "
          "rank 1 of 4, and no other launcher is there: unset it, or set HOROVOD_LAUNCHER=none for "
          "a world of one");
    CHECK(
        contains(refusal_of(with(torchrun(), "HOROVOD_CONTROLLER", "mpi")), "leaves out torchrun"));
    CHECK(contains(refusal_of(with(slurm(), "HOROVOD_CONTROLLER", "mpi")), "leaves out srun"));
    CHECK(contains(
        refusal_of(with(without(open_mpi(), "OMPI_COMM_WORLD_RANK"), "HOROVOD_CONTROLLER", "gloo")),
        "OMPI_COMM_WORLD_RANK is not set"));

    auto alone = with(open_mpi(), "HOROVOD_CONTROLLER", "gloo");
    alone["OMPI_COMM_WORLD_RANK"] = alone["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
    alone["OMPI_COMM_WORLD_SIZE"] = alone["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
    CHECK(launcher_of(alone) == Launcher::none);
    CHECK(launcher_of(with(with(open_mpi(), "HOROVOD_CONTROLLER", "gloo"), "HOROVOD_LAUNCHER",
                           "none")) == Launcher::none);
}

TEST_CASE("what is missing or impossible is named, with all values") {
    CHECK(refusal_of(without(open_mpi(), "OMPI_COMM_WORLD_SIZE")) ==
          "the variables of Open MPI's mpirun do not describe a rank: OMPI_COMM_WORLD_SIZE is not "
          "set (OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE unset, OMPI_COMM_WORLD_LOCAL_RANK=1, "
          "OMPI_COMM_WORLD_LOCAL_SIZE=4); HOROVOD_LAUNCHER names another launcher, or none");
    CHECK(contains(refusal_of({{"PMI_RANK", "0"}}), "PMI_SIZE is not set"));
    CHECK(contains(refusal_of({{"PMI_SIZE", "2"}}), "PMI_RANK is not set"));
    CHECK(contains(refusal_of(without(torchrun(), "RANK")), "RANK is not set"));
    CHECK(contains(refusal_of(without(slurm(), "SLURM_STEP_NUM_TASKS")),
                   "SLURM_STEP_NUM_TASKS is not set"));
    CHECK(contains(refusal_of(with(open_mpi(), "OMPI_COMM_WORLD_SIZE", "four")),
                   "OMPI_COMM_WORLD_SIZE is not a whole number of at least 1"));
    CHECK(contains(refusal_of(with(open_mpi(), "OMPI_COMM_WORLD_RANK", "4")),
                   "rank 4 of 4 cannot be"));
    CHECK(
        contains(refusal_of(with(hydra(), "MPI_LOCALRANKID", "2")), "local rank 2 of 2 cannot be"));
    CHECK(contains(refusal_of(with(hydra(), "MPI_LOCALNRANKS", "3")),
                   "a host with 3 of 2 ranks cannot be"));
    CHECK(contains(refusal_of(with(hydra(), "MPI_LOCALRANKID", "-1")), "MPI_LOCALRANKID"));
}

TEST_CASE("tasks per node are read as Slurm writes them") {
    const auto local_size = [](const std::string& node, const std::string& tasks) {
        return decode_external_launch(
                   with(with(slurm(), "SLURM_NODEID", node), "SLURM_STEP_TASKS_PER_NODE", tasks))
            ->local_size;
    };

    CHECK(local_size("0", "4(x2),2") == 4);
    CHECK(local_size("1", "4(x2),2") == 4);
    CHECK(local_size("2", "2,2,6") == 6);
    for (const auto* wrong : {"4(x2)", "", "4(x2", "4(x),2", "a,b,c", "4(x0),3"}) {
        CAPTURE(wrong);
        CHECK(contains(refusal_of(with(slurm(), "SLURM_STEP_TASKS_PER_NODE", wrong)),
                       "SLURM_STEP_TASKS_PER_NODE has no tasks for node 2"));
    }
    CHECK(decode_external_launch(without(slurm(), "SLURM_STEP_TASKS_PER_NODE"))->local_size ==
          std::nullopt);
}

TEST_CASE("what a launcher does not say stays open") {
    const auto two_nodes = decode_external_launch(with(flux(), "FLUX_JOB_NNODES", "2"));
    const auto plain_pmi = decode_external_launch({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}});

    CHECK(two_nodes->local_size == std::nullopt);
    CHECK(plain_pmi->local_rank == std::nullopt);
}

TEST_CASE("the launcher is the nearest process without the mark") {
    const auto launcher = find_ancestor_without("A_MARK_THAT_NOBODY_HAS=");

    REQUIRE(launcher);
    CHECK(launcher->pid == ::getpid());
    CHECK_FALSE(launcher->start_time.empty());
}

TEST_CASE("the server of an MPI that has started alone is no launcher") {
    const Environment own{
        {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "251265025"}, {"OMPI_MCA_ess", "singleton"}};

    CHECK(launcher_of(own) == Launcher::none);
    CHECK(launcher_of(inside(slurm(), own)) == Launcher::slurm);
    CHECK(launcher_of(inside(own, open_mpi())) == Launcher::ompi);
    CHECK_FALSE(decode_mpi_launch(own));
}

TEST_CASE("what an mpirun says is found behind horovodrun's own variables") {
    const auto ranks_of_ours = inside({{"HOROVOD_RANK", "1"}}, open_mpi());
    const auto launch = decode_mpi_launch(ranks_of_ours);
    REQUIRE(launch);
    CHECK(launch->rank == 1);
    CHECK(launch->size == 4);

    CHECK_FALSE(decode_mpi_launch({{"HOROVOD_RANK", "1"}}));
    CHECK_FALSE(decode_mpi_launch(slurm()));
    CHECK_FALSE(decode_mpi_launch(without(open_mpi(), "OMPI_COMM_WORLD_SIZE")));
}
