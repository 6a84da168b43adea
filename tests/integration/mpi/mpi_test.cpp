// SPDX-License-Identifier: Apache-2.0
//
// The MPI backend under real launchers: each case starts a program of these tests with mpirun.
#include "tests/integration/mpi/mpi_launch.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace hvd::test {
namespace {

/// The same, where the ranks that are left are to have some seconds after the death of one. Open
/// MPI's mpirun sends them SIGKILL a second after SIGTERM; hydra at once, unless an option delays
/// it: then SIGUSR1. Whatever a rank says after another's bad end may get lost in hydra: the
/// shell's end is a good one.
const Launcher kPatientOpenMpi{.name = "Open MPI",
                               .path = "/usr/bin/mpirun.openmpi",
                               .arguments = {"--allow-run-as-root", "--oversubscribe", "--bind-to",
                                             "none", "--mca", "odls_base_sigkill_timeout", "3"}};
const Launcher kPatientMpich{.name = "MPICH",
                             .path = "/usr/bin/mpiexec.hydra",
                             .arguments = {"-disable-auto-cleanup"},
                             .shell = {"/bin/sh", "-c", "trap '' USR1; \"$@\"; exit 0", "rank"}};

[[nodiscard]] std::string output_of(std::vector<const char*> words) {
    words.push_back(nullptr);
    const auto run = [&](int) {
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): execvp's own history
        (void)::execvp(words.front(), const_cast<char* const*>(words.data()));
        return 127;
    };
    const auto end = run_ranks(1, run).front();
    CHECK(end.exit_code == 0);
    return end.output;
}

/// MPI has no way back from a collective that some ranks have given up: its launcher ends what is
/// left of the job, and says so. Every rank has told of its case by then; the launcher itself is
/// not judged: that of Open MPI 4.1 with PMIx 4.2 now and then deadlocks in PMIx_server_finalize
/// when ranks have left without MPI_Finalize, and is killed here.
void gives_up_in_time(const Launcher& launcher, int ranks) {
    if (!is_here(launcher)) {
        return;
    }

    const auto end =
        launch(launcher, ranks,
               {HVD_MPI_CONTRACT, "--use-colour", "no", "backend contract: a task whose deadline*"},
               std::chrono::seconds(20));

    CAPTURE(launcher.name, ranks, end.output);
    CHECK(cases_that_passed(end) == ranks);
}

/// The last rank is killed; every other one says that what was pending has failed as it should. How
/// the launcher ends is not judged here, either.
void survives_a_killed_rank(const Launcher& launcher, int ranks, const char* path) {
    if (!is_here(launcher)) {
        return;
    }

    const auto end = launch(launcher, ranks, {HVD_MPI_CONTRACT, "--use-colour", "no", path},
                            std::chrono::seconds(20));

    CAPTURE(launcher.name, ranks, path, end.output);
    CHECK(cases_that_passed(end) == ranks - 1);
}

/// Ranks that wait for one that never comes end by themselves, and name it.
void ends_a_start_in_time(const Launcher& launcher) {
    if (!is_here(launcher)) {
        return;
    }
    constexpr int kRanks = 3;

    const auto end =
        launch(launcher, kRanks, {HVD_MPI_CONTRACT, "--use-colour", "no", "mpi start: MPI_Init*"},
               std::chrono::seconds(30));

    CAPTURE(launcher.name, end.output);
    CHECK(times(end.output,
                "MPI_Init_thread has not returned in time: not all processes that "
                "mpirun started have called hvd.init") == kRanks - 1);
    CHECK(cases_that_passed(end) == 1);
}

void gives_a_communicator_up_in_time(const Launcher& launcher) {
    if (!is_here(launcher)) {
        return;
    }
    constexpr int kRanks = 3;

    const auto end =
        launch(launcher, kRanks, {HVD_MPI_CONTRACT, "--use-colour", "no", "mpi start: a comm*"},
               std::chrono::seconds(30));

    CAPTURE(launcher.name, end.output);
    CHECK(cases_that_passed(end) == kRanks);
}

}  // namespace

TEST_CASE("the backend contract holds under Open MPI's mpirun, at 1, 2, 3, 4 and 7 ranks") {
    passes_the_contract(kOpenMpi, GENERATE(1, 2, 3, 4, 7));
}

TEST_CASE("the backend contract holds under MPICH's mpiexec, at 1, 2, 3, 4 and 7 ranks") {
    passes_the_contract(kMpich, GENERATE(1, 2, 3, 4, 7));
}

TEST_CASE("sets of ranks and long tensors work under either MPI") {
    const auto& launcher = *GENERATE(&kOpenMpi, &kMpich);
    if (!is_here(launcher)) {
        return;
    }
    const int ranks = GENERATE(2, 3);

    const auto end = launch(launcher, ranks, {HVD_MPI_CONTRACT, "--use-colour", "no", "mpi: *"});

    CAPTURE(launcher.name, ranks, end.output);
    CHECK(end.exit_code == 0);
    CHECK(cases_that_passed(end) == 2 * ranks);
}

TEST_CASE("either MPI adds up halves of many ranks by our user operations") {
    const auto& launcher = *GENERATE(&kOpenMpi, &kMpich);
    if (!is_here(launcher)) {
        return;
    }
    constexpr int kRanks = 16;

    const auto end =
        launch(launcher, kRanks, {HVD_MPI_CONTRACT, "--use-colour", "no", "mpi halves: *"});

    CAPTURE(launcher.name, end.output);
    CHECK(end.exit_code == 0);
    CHECK(cases_that_passed(end) == 4 * kRanks);
}

TEST_CASE("a plugin needs no MPI to be loaded, and shows one symbol") {
    const auto* const plugin = GENERATE(HVD_MPI_OPENMPI_PLUGIN, HVD_MPI_MPICH_PLUGIN);
    CAPTURE(plugin);

    const auto needed = output_of({"readelf", "--dynamic", plugin});
    const auto shown = output_of({"nm", "--dynamic", "--defined-only", plugin});

    CHECK(needed.find("(NEEDED)") != std::string::npos);
    CHECK(needed.find("mpi.so") == std::string::npos);
    CHECK(needed.find("mpich.so") == std::string::npos);
    CHECK(shown.find(" hvd_mpi_v2\n") != std::string::npos);
    CHECK(std::ranges::count(shown, '\n') == 1);
}

TEST_CASE("a collective over Open MPI that is given up fails with the owner's cause") {
    gives_up_in_time(kOpenMpi, GENERATE(2, 3));
}

TEST_CASE("a collective over MPICH that is given up fails with the owner's cause") {
    gives_up_in_time(kMpich, GENERATE(2, 3));
}

TEST_CASE("a collective over Open MPI fails when one of its ranks is killed") {
    survives_a_killed_rank(kPatientOpenMpi, 3,
                           GENERATE("*in the tiny path", "*in the small path",
                                    "*in the chunked path", "*killed member*"));
}

TEST_CASE("a collective over MPICH fails when one of its ranks is killed") {
    survives_a_killed_rank(kPatientMpich, GENERATE(2, 7),
                           GENERATE("*in the tiny path", "*in the small path",
                                    "*in the chunked path", "*killed member*"));
}

TEST_CASE("Open MPI's start ends in time when a rank never comes") {
    ends_a_start_in_time(kPatientOpenMpi);
    gives_a_communicator_up_in_time(kPatientOpenMpi);
}

TEST_CASE("MPICH's start ends in time when a rank never comes") {
    ends_a_start_in_time(kPatientMpich);
    gives_a_communicator_up_in_time(kPatientMpich);
}

// Not in CI: for its memory, 7 GiB. Run it by its tag: build/release/tests/integration_mpi [large]
TEST_CASE("more than 2^31 bytes and elements travel in one collective of either MPI", "[.large]") {
    const auto& launcher = *GENERATE(&kOpenMpi, &kMpich);
    if (!is_here(launcher)) {
        return;
    }

    const auto end = launch(launcher, 2, {HVD_MPI_CONTRACT, "--use-colour", "no", "mpi large: *"},
                            std::chrono::seconds(900));

    CAPTURE(launcher.name, end.output);
    CHECK(end.exit_code == 0);
    CHECK(cases_that_passed(end) == 3 * 2);
}

}  // namespace hvd::test
